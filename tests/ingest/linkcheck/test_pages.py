"""What a page says for the verdict: anchors, and pages that are none."""

from __future__ import annotations

import pytest

from datasette_ingest.ingest.linkcheck import pages

PROSE = "The tide rises twice a day, and the herons follow it along the shore. " * 20


@pytest.mark.parametrize(
    "fragment, anchor",
    [
        ("here", "here"),
        ("top", ""),
        ("TOP", ""),
        ("%54op", ""),
        ("here:~:text=tide", "here"),
        (":~:text=tide", None),
        ("/route", None),
        ("!page", None),
        ("caf%C3%A9", "caf%C3%A9"),
    ],
)
def test_what_a_fragment_asks_for(fragment: str, anchor: str | None) -> None:
    assert pages.anchor_of(fragment) == anchor


@pytest.mark.parametrize(
    "markup, anchor, found",
    [
        ('<p id="here">', "here", True),
        ("<p id=HERE>", "here", False),
        ('<a name="here">', "here", True),
        ('<p name="here">', "here", False),
        ('<p id="café">', "caf%C3%A9", True),
        ('<p id="caf%C3%A9">', "caf%C3%A9", True),
        ('<h2 id="user-content-here">', "here", True),
        ('<a href="#here">', "here", False),
        ('<!-- <p id="here"> -->', "here", False),
        ("<p id='a&amp;b'>", "a&b", True),
    ],
)
def test_where_an_anchor_is_found(markup: str, anchor: str, found: bool) -> None:
    data = f"<!doctype html><meta charset=utf-8><body>{markup}x".encode()
    assert pages.read(data, "http://a.example/x", "text/html", anchor).has_anchor is found


@pytest.mark.parametrize(
    "body",
    [
        "<title>a.example is for sale</title><p>Make an offer",
        "<title>a.example</title><h1>This domain name has expired</h1><p>Please contact your registrar",
        "<title>Parked domain</title>",
        "<title>a.example</title><script src='https://www.sedoparking.com/x.js'></script><p>Related searches",
        "<title>Welcome to nginx!</title><h1>Welcome to nginx!</h1><p>Further configuration is required.",
        "<title>a.example</title><h1>Diese Domain steht zum Verkauf</h1>",
    ],
)
def test_pages_of_parked_domains(body: str) -> None:
    seen = pages.read(f"<!doctype html>{body}".encode(), "http://a.example/x", "text/html", "")
    assert seen.text is not None
    problem = pages.obstacle("http://a.example/x", seen.text)
    assert problem is not None and problem.status == "soft-404"


@pytest.mark.parametrize(
    "body",
    [
        f"<title>Domain names for sale: a market study</title><h1>Domain names for sale</h1><p>{PROSE}<p>{PROSE}",
        f"<title>The expired domain problem</title><p>{PROSE}",
        "<title>House for sale in Leiden</title><h1>A house by the canal</h1><p>Three rooms.",
        f"<title>Parked cars and herons</title><p>{PROSE}",
    ],
)
def test_pages_that_speak_of_such_things(body: str) -> None:
    seen = pages.read(f"<!doctype html>{body}".encode(), "http://a.example/x", "text/html", "")
    assert seen.text is not None
    assert pages.obstacle("http://a.example/x", seen.text) is None


def test_a_page_without_any_element_says_nothing() -> None:
    assert pages.read(b"", "http://a.example/x", "text/html", "here").has_anchor is False


@pytest.mark.parametrize(
    "refresh, target",
    [
        ("0; url=/new", "http://a.example/new"),
        ("5;URL='http://b.example/new#part'", "http://b.example/new#part"),
        ("300", None),
        ("0; url=/x", None),
        ("0; url=#part", None),
        ("0; url=javascript:alert(1)", None),
    ],
)
def test_where_a_page_of_few_words_leads(refresh: str, target: str | None) -> None:
    few = f'<title>Moved</title><meta http-equiv=refresh content="{refresh}"><p>This page has moved.'
    assert pages.read(few.encode(), "http://a.example/x", "text/html", "").leads_to == target
    assert pages.read((few + PROSE).encode(), "http://a.example/x", "text/html", "").leads_to is None
