"""What the addresses on a link's way say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest.linkcheck.addresses import (
    Hop,
    differ_only_in,
    instead_of_the_page,
    is_home,
    is_moved,
    with_fragment,
)

A, B = "http://a.example", "https://b.example"


@pytest.mark.parametrize(
    "url, codes, moved",
    [
        (f"{A}/x", [301], True),
        (f"{A}/x", [308, 301], True),
        (f"{A}/x", [301, 302], False),
        (f"{A}/x", [307], False),
        (f"{A}/x", [300], False),
        ("https://doi.org/10.1/x", [301], False),
        ("https://dx.doi.org/10.1/x", [308], False),
        ("http://purl.org/x", [301], False),
        ("https://not-doi.org.example/x", [301], True),
    ],
)
def test_only_a_way_of_permanent_redirects_is_a_move(url: str, codes: list[int], moved: bool) -> None:
    assert is_moved([Hop(url, code) for code in codes]) is moved


@pytest.mark.parametrize(
    "url", [f"{A}/", A, f"{A}/index.html", f"{A}/en/", f"{A}/pt-BR", f"{A}/home", f"{A}/?error=404"]
)
def test_home_pages(url: str) -> None:
    assert is_home(url)


@pytest.mark.parametrize("url", [f"{A}/a", f"{A}/?p=12", f"{A}/x/index.html", f"{A}/eng/", f"{A}/homepage-of-jo"])
def test_pages_that_are_no_home_page(url: str) -> None:
    assert not is_home(url)


@pytest.mark.parametrize(
    "asked, found, instead",
    [
        (f"{A}/papers/7", f"{A}/", "the home page"),
        (f"{A}/papers/7", "https://www.a.example/", "the home page"),
        (f"{A}/papers/7", "https://journals.a.example/en/", "the home page"),
        (f"{A}/?p=7", f"{A}/", "the home page"),
        (f"{A}/papers/2011/7", f"{B}/", "the home page"),
        (f"{A}/x7Kq", f"{B}/", None),
        ("https://doi.org/10.1/a/b", f"{B}/", None),
        (f"{A}/", "https://www.a.example/", None),
        (f"{A}/index.php", f"{A}/", None),
        (f"{A}/papers/7", f"{A}/papers/7/", None),
        (f"{A}/papers/7", f"{A}/errors/404.html", "which is an error page"),
        (f"{A}/papers/7", f"{A}/page-not-found", "which is an error page"),
        (f"{A}/errors/404.html", f"{A}/new/404.html", None),
        (f"{A}/papers/7", f"{A}/papers/not-found-in-nature", None),
        (f"{A}/papers/7", "https://www.hugedomains.com/domain_profile.cfm?d=a", "where the domain is for sale"),
    ],
)
def test_redirects_that_stand_for_not_found(asked: str, found: str, instead: str | None) -> None:
    assert instead_of_the_page(asked, found) == instead


@pytest.mark.parametrize(
    "one, other, words",
    [
        (f"{A}/x", "https://a.example/x", "http → https"),
        (f"{A}/x", "http://www.a.example/x/", "www., the slash at the end"),
        (f"{A}/x", f"{A}/y", None),
    ],
)
def test_what_alone_differs(one: str, other: str, words: str | None) -> None:
    assert differ_only_in(one, other) == words


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20))
def test_a_fragment_is_kept_unless_the_redirect_has_one(fragment: str) -> None:
    assert with_fragment(f"{A}/x#own", fragment) == f"{A}/x#own"
    assert with_fragment(f"{A}/x", fragment).startswith(f"{A}/x#")
