"""Rules that a user writes: what is taken, and what is said of one that cannot be used."""

from __future__ import annotations

from typing import Any

import pytest

from datasette_ingest.ingest.linkrule import LinkRule, Place, link_rule
from datasette_ingest.ingest.page.read import read_page

TYPES = frozenset({"pdf", "xml", "html"})
PAGE = "https://repo.example.edu/item/7"


def rule(**given: Any) -> LinkRule:
    return link_rule({"name": "mine", "target": "pdf", **given}, targets=TYPES)


def first(html: str, *rules: LinkRule, target: str = "pdf") -> tuple[str, str] | None:
    found = read_page(html.encode(), PAGE, "", target=target, rules=rules).candidates
    return (found[0].rule, found[0].url) if found else None


@pytest.mark.parametrize(
    ("given", "html", "url"),
    [
        ({"place": "meta", "key": "File.URL"}, '<meta name="file.url" content="/f">', "https://repo.example.edu/f"),
        ({"place": "link", "rel": "enclosure"}, '<link rel="enclosure" href="/f">', "https://repo.example.edu/f"),
        (
            {"place": "anchor", "key": "get-it"},
            '<a class="btn get-it" href="/f">Text</a>',
            "https://repo.example.edu/f",
        ),
        ({"place": "anchor", "key": "'Plná verze'"}, '<a href="/f">plná  Verze</a>', "https://repo.example.edu/f"),
        ({"place": "frame", "key": "reader"}, '<iframe id="reader" src="/f">', "https://repo.example.edu/f"),
        (
            {"place": "input", "key": "file"},
            '<input type="hidden" name="file" value="/f">',
            "https://repo.example.edu/f",
        ),
        (
            {"place": "script", "key": r'fileUri: "([^"]+)"'},
            r'<script>x = {fileUri: "https:\/\/cdn.example.edu\/f"}</script>',
            "https://cdn.example.edu/f",
        ),
        (
            {"place": "url", "key": r"^(https://repo\.example\.edu)/item/(\d+)$", "to": r"\1/files/\2/main"},
            "<p>A page",
            "https://repo.example.edu/files/7/main",
        ),
        (
            {"place": "anchor", "key": "view", "found": r"(.*)/view/(\d+)$", "to": r"\1/raw/\2"},
            '<a class="view" href="/view/9">Text</a>',
            "https://repo.example.edu/raw/9",
        ),
    ],
    ids=lambda value: value.get("place") if isinstance(value, dict) else None,
)
def test_a_rule_of_the_users_own_finds_its_link(given: dict[str, Any], html: str, url: str) -> None:
    assert first(html) != ("mine", url)
    assert first(html, rule(**given)) == ("mine", url)


def test_a_rule_counts_only_on_its_pages_and_for_its_links() -> None:
    html = '<a class="x" href="/one">A</a><a class="x" href="/two">B</a>'
    assert first(html, rule(place="anchor", key="x", page=r"^https://other\.example/")) is None
    assert first(html, rule(place="anchor", key="x", found="two$")) == ("mine", "https://repo.example.edu/two")


def test_trust_decides_the_order_among_all_rules() -> None:
    html = '<meta name="citation_pdf_url" content="/official"><a class="x" href="/mine">A</a>'
    assert first(html, rule(place="anchor", key="x", trust=50)) == (
        "citation_pdf_url",
        "https://repo.example.edu/official",
    )
    # of two that are trusted alike, the user's own comes first
    assert first(html, rule(place="anchor", key="x", trust=100)) == ("mine", "https://repo.example.edu/mine")


def test_a_rule_without_a_target_is_for_every_type() -> None:
    own = link_rule({"name": "mine", "place": "anchor", "key": "x"}, targets=TYPES)
    for target in TYPES:
        assert first('<a class="x" href="/f">A</a>', own, target=target) == ("mine", "https://repo.example.edu/f")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "needs a name"),
        ({"name": " "}, "needs a name"),
        ({"name": "r"}, "place must be one of"),
        ({"name": "r", "place": "sky"}, "place must be one of"),
        ({"name": "r", "place": "meta"}, "needs a key"),
        ({"name": "r", "place": "link"}, "needs a rel"),
        ({"name": "r", "place": "meta", "key": "x", "target": "film"}, "target must be one of"),
        ({"name": "r", "place": "meta", "key": "x", "colour": "red"}, "unknown key 'colour'"),
        ({"name": "r", "place": "meta", "key": 5}, "key must be text"),
        ({"name": "r", "place": "meta", "key": "x", "trust": 101}, "trust must be a whole number"),
        ({"name": "r", "place": "meta", "key": "x", "trust": True}, "trust must be a whole number"),
        ({"name": "r", "place": "meta", "key": "x", "found": "("}, "found is not a regular expression"),
        ({"name": "r", "place": "meta", "key": "x", "page": "["}, "page is not a regular expression"),
        ({"name": "r", "place": "script", "key": "x"}, "needs a group"),
        ({"name": "r", "place": "url", "key": "x"}, "needs `to`"),
        ({"name": "r", "place": "url", "key": "(x)", "to": r"\2"}, "names the group 2"),
        ({"name": "r", "place": "url", "key": "(x)", "to": r"\g<name>"}, "names the group name"),
        ({"name": "r", "place": "url", "key": "(x)", "to": r"\q"}, "a backslash"),
        ({"name": "r", "place": "meta", "key": "x", "to": "/y"}, "needs `found`"),
        ({"name": "r", "place": "url", "key": "(x)", "to": r"\0"}, r"is \g<0>, not \0"),
        ({"name": "r", "place": "anchor", "key": "  "}, "needs a key"),
        ({"name": "r", "place": "anchor", "key": "''"}, "needs a key"),
        ({"name": "r" * 201, "place": "meta", "key": "x"}, "no more than 200 characters"),
        ({"name": "r\ud800", "place": "meta", "key": "x"}, "name must be text"),
        ({"name": "r", "place": "script", "key": "(x){99999999999}"}, "key is not a regular expression"),
        ({"name": "r", "place": "script", "key": "(" * 5000}, "key is not a regular expression"),
        ({"name": "r", "place": "meta", "key": "x", 1: 2, "colour": "red"}, "unknown key 1"),
    ],
)
def test_a_rule_that_cannot_be_used_says_why(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=r"^rules: ") as refused:
        link_rule(given, targets=TYPES)
    assert says in str(refused.value)


def test_an_example_is_not_the_users_business() -> None:
    with pytest.raises(ValueError, match="unknown key 'example'"):
        rule(place="meta", key="x", example="<p>")


def test_every_place_can_be_named_in_configuration() -> None:
    needs = {"key": "(x)", "rel": "y", "to": "/z", "found": "(x)"}
    assert {rule(place=place.value, **needs).place for place in Place} == set(Place)


def test_a_rule_of_the_users_own_means_what_it_says() -> None:
    html = '<div class="related"><a class="x" href="/s">Supplement, copy 1</a></div>'
    assert first(html, rule(place="anchor", key="x")) == ("mine", "https://repo.example.edu/s")


@pytest.mark.parametrize("to", ["\\g", "\\g<1", "\\g<-1>", "\\g< 1>", "a\\", "\\g<1>\\", "\\n"])
def test_a_template_that_would_fail_on_a_page_is_refused_at_once(to: str) -> None:
    with pytest.raises(ValueError, match="a backslash in `to`"):
        rule(place="url", key="(item)", to=to)


def test_groups_that_took_no_part_are_nothing() -> None:
    script = "<script>file: '/f'</script>"
    assert first(script, rule(place="script", key="(nothing)|file: '([^']+)'")) is None
    both = rule(place="script", key="(nothing)|file: '([^']+)'", to=r"\1\2")
    assert first(script, both) == ("mine", "https://repo.example.edu/f")
    whole = rule(place="url", key="item/(x)?", to=r"/files\1/\g<0>")
    assert first("<p>A page", whole) == ("mine", "https://repo.example.edu/files/item/")


def test_types_and_relations_are_compared_without_case() -> None:
    html = '<link rel="Enclosure" type="Application/ZIP" href="/f">'
    assert first(html, rule(place="link", key="APPLICATION/zip", rel="enclosurE")) == (
        "mine",
        "https://repo.example.edu/f",
    )
