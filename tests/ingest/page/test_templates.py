"""Templates: nothing in them is on the page, but for a declarative shadow root."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest.page.read import read_page
from datasette_ingest.ingest.page.templates import without_templates

OWN = '<p><a href="/own.pdf">PDF</a></p>'
WRONG = '<a href="/wrong.pdf">Download PDF</a>'


def found_on(body: str, *, head: str = "", target: str = "pdf") -> list[str]:
    data = f"<!doctype html><html><head><title>T</title>{head}</head><body>{body}</body></html>".encode()
    page = read_page(data, "https://journal.example/a/1", "text/html", target=target)
    return [candidate.url.removeprefix("https://journal.example") for candidate in (*page.candidates, *page.rejected)]


@pytest.mark.parametrize(
    "hidden",
    [
        f"<template>{WRONG}</template>",
        f"<TEMPLATE id=row data-x='>'>{WRONG}</TEMPLATE >",
        f"<template><template></template>{WRONG}</template>",
        f"<template><div><table><tr><td>{WRONG}</template>",
        f"<template shadowrootmode='none'>{WRONG}</template>",
        f"<template data-mode='shadowrootmode'>{WRONG}</template>",
        f"<template><div><template shadowrootmode=open>{WRONG}</template></div></template>",
        f"<ul><template shadowrootmode=open>{WRONG}</template></ul>",
        f"<template><script>'</template>'</script>{WRONG}</template>",
        f"<template><!-- </template> -->{WRONG}</template>",
        f"<template>{WRONG}<iframe src='/wrong.pdf' type=application/pdf></iframe></template>",
        "<template><embed type='application/pdf' src='/wrong.pdf'></template>",
        "<template><meta http-equiv=refresh content='0; url=/wrong.pdf'></template>",
    ],
)
def test_a_template_holds_nothing_and_ends_where_it_ends(hidden: str) -> None:
    assert found_on(hidden + OWN) == ["/own.pdf"]


@pytest.mark.parametrize(
    "head",
    [
        '<template><meta name="citation_pdf_url" content="/wrong.pdf"></template>',
        '<template><link rel="alternate" type="application/pdf" href="/wrong.pdf"></template>',
        '<template><script type="application/ld+json">{"@type": "Article", "encoding": {"contentUrl": "/wrong.pdf"}}'
        "</script></template>",
        '<template><base href="https://elsewhere.example/"></template>',
    ],
)
def test_so_do_the_templates_of_a_head(head: str) -> None:
    assert found_on(OWN, head=head) == ["/own.pdf"]


@pytest.mark.parametrize("target", ["xml", "html"])
def test_whatever_type_is_wanted(target: str) -> None:
    assert found_on(f'<template><a href="/wrong.{target}">Full text {target}</a></template>', target=target) == []


@pytest.mark.parametrize(
    "shown",
    [
        f"<file-list><template shadowrootmode=open>{OWN}</template></file-list>",
        f'<div><template shadowrootmode="closed" shadowrootclonable>{OWN}</template></div>',
        f"<!-- <template> -->{OWN}",
        f"<script>document.write('<template>')</script>{OWN}",
        f"<textarea><template></textarea>{OWN}",
        f"<p title='<template>'>x</p>{OWN}",
        f"</template>{OWN}",
        f"<templates>{OWN}</templates>",
    ],
)
def test_what_is_no_template_is_shown(shown: str) -> None:
    assert found_on(shown) == ["/own.pdf"]


def test_an_element_has_one_shadow_root() -> None:
    first, second = (f"<template shadowrootmode=open>{text}</template>" for text in (OWN, WRONG))
    assert found_on(f"<x-files>{first}{second}</x-files>") == ["/own.pdf"]


def test_a_template_without_an_end_goes_on_to_the_end_of_the_page() -> None:
    assert found_on(f"{OWN}<template>{WRONG}") == ["/own.pdf"]


@given(
    st.lists(st.sampled_from(["<template>", "</template>", "<a b='", "'", '"', ">", "<!--", "-->", "<script>", "x"]))
)
def test_no_page_stops_it(parts: list[str]) -> None:
    data = "".join(parts).encode()
    assert len(without_templates(data)) <= len(data)
