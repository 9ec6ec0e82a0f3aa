"""Bytes become a tree, whatever they are, in a time that grows with their number alone."""

from __future__ import annotations

import pytest

from datasette_ingest.ingest.page.html import MAX_ATTRIBUTES, base_of, parse_html

NAMES = [f"x{number}" for number in range(60_000)]
# What a tag may be hidden behind from a reader that knows nothing of comments, scripts and quotes.
HIDING_PLACES = {
    "nothing": "<div {} c=''>",
    "a comment": '<!-- <a b="--><div {} c="">',
    "a script": '<script><a b="</script><div {} c="">',
    "a script in a script": '<script><!--<script></script><a b="</script>--></script><div {} c="">',
    "a declaration": '<!x <a b="><div {} c="">',
    "a title": "<title><a b='</title><div {} c=''>",
    "an unquoted value": '<div b=c=" {} d="">',
    "a name with a quote": '<div b" {} c">',
}


@pytest.mark.parametrize("place", HIDING_PLACES.values(), ids=HIDING_PLACES.keys())
@pytest.mark.parametrize("joined", [" ".join, '=">" '.join, "='<a>' ".join, '="1"'.join, "/".join])
def test_an_element_of_endless_attributes_keeps_the_first_ones(place: str, joined: object) -> None:
    attributes = joined(NAMES)  # type: ignore[operator]
    root = parse_html(place.format(attributes).encode(), "")
    assert root is not None
    assert all(len(element.attrib) <= MAX_ATTRIBUTES + 1 for element in root.iter())


@pytest.mark.parametrize(
    "unit",
    [
        '<a b="',
        "<a b='",
        "<a ",
        "<a <a ",
        '<a b="<a" ',
        "<a b='<a x=\"' ",
        '<div b="<a">',
        "<a " * 240 + ">",
        "<a b=c ",
        "<a",
        "=<a/",
        "/<a=",
        "<a='",
        "</a<b=",
    ],
)
def test_tags_inside_tags_are_gone_through_once(unit: str) -> None:
    root = parse_html(b"<p>" + unit.encode() * (600_000 // len(unit)), "")
    assert root is None or all(len(element.attrib) <= MAX_ATTRIBUTES + 1 for element in root.iter())


def test_comparisons_in_a_script_are_no_tags() -> None:
    script = "for (var i=0; i<n; i++) { if (a<b && c<'d') { x = \"y<z\"; } }\n" * 200
    root = parse_html(f"<script>{script}</script><a href='/p.pdf'>PDF</a>".encode(), "")
    assert next(root.iter("script")).text.replace(">", "") == script
    assert [anchor.get("href") for anchor in root.iter("a")] == ["/p.pdf"]


def test_what_comes_after_such_an_element_is_read() -> None:
    root = parse_html(f"<p><b {' '.join(NAMES)}>x</b><a href='/p.pdf'>PDF</a>".encode(), "")
    assert [anchor.get("href") for anchor in root.iter("a")] == ["/p.pdf"]


@pytest.mark.parametrize(
    "html",
    [
        "<p " + " ".join(f'data-{name}="a > b, <i>c</i>"' for name in NAMES[:200]) + ">text</p>",
        "<script>for (var i=0; i<n; i++) { x = a<b ? c : d }</script><p title='<b>bold</b>'>text</p>",
        "<!-- <a b=\" --><p class='\"'>text</p>",
    ],
)
def test_a_page_as_people_write_them_stays_as_it_is(html: str) -> None:
    (paragraph,) = parse_html(html.encode(), "").iter("p")
    assert paragraph.text == "text"
    assert len(paragraph.attrib) in (0, 1, 200)


def test_a_base_that_is_no_url_is_none() -> None:
    root = parse_html(b'<base><base href="http://[">', "")
    assert base_of(root, "http://h/a") == "http://h/a"
