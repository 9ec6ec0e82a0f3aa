"""Link headers are read as RFC 8288 writes them, and broken ones do no harm."""

from __future__ import annotations

import pytest

from datasette_ingest.ingest.page.typed_links import MAX_LINKS, TypedLink, read_link_headers


def test_a_typed_link_is_read() -> None:
    assert read_link_headers(['<https://h/p.pdf>; rel="item"; type="application/pdf"']) == (
        TypedLink("https://h/p.pdf", frozenset({"item"}), "application/pdf"),
    )


def test_several_links_stand_in_one_header_and_in_several() -> None:
    found = read_link_headers(["</1>; rel=item, </2>;rel=cite-as", "</3> ; REL=describedby ; type=Text/HTML;x"])
    assert [(link.href, *link.rels, link.mimetype) for link in found] == [
        ("/1", "item", ""),
        ("/2", "cite-as", ""),
        ("/3", "describedby", "text/html"),
    ]


def test_commas_and_semicolons_belong_to_urls_and_quoted_texts() -> None:
    header = '</a,b;c>; title="one, two; \\"three\\""; rel="item author", </next>; rel=item'
    first, second = read_link_headers([header])
    assert (first.href, first.title, first.rels) == ("/a,b;c", 'one, two; "three"', {"item", "author"})
    assert second.href == "/next"


def test_only_the_first_of_a_repeated_parameter_counts() -> None:
    assert read_link_headers(["</a>; rel=item; rel=license"])[0].rels == {"item"}


def test_a_link_about_something_else_says_so() -> None:
    assert read_link_headers(['</a>; rel=item; anchor="/other"'])[0].anchor == "/other"


@pytest.mark.parametrize("header", ["", ",", "<", "</a", "a; rel=item", '"', ";;;", "<>" * 3, '</a>; rel="open'])
def test_a_broken_header_raises_nothing(header: str) -> None:
    assert all(isinstance(link, TypedLink) for link in read_link_headers([header]))


def test_what_is_malformed_does_not_hide_the_next_link() -> None:
    assert [link.href for link in read_link_headers(['nonsense "x, y", </a>; rel=item'])] == ["/a"]


def test_a_flood_of_links_is_cut() -> None:
    assert len(read_link_headers(["</a>; rel=item, " * 4000] * 3)) == MAX_LINKS


def test_a_header_of_nothing_but_quotes_takes_a_time_that_grows_with_its_length_alone() -> None:
    assert read_link_headers(['"' * 60_000, '</a>; x="' + "\\" * 60_000]) is not None


@pytest.mark.parametrize("unit", [",", "<", '"\\"', '"<', "<a>;", ";", '<a>;b="\\', " ", "\\"])
@pytest.mark.parametrize("end", ["", '"', "\\", ">"])
def test_no_header_takes_longer_than_its_length(unit: str, end: str) -> None:
    header = (unit * 60_000)[:60_000] + end
    assert all(isinstance(link, TypedLink) for link in read_link_headers([header, '"' + header]))
