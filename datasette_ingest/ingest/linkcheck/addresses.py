"""What the addresses on a link's way say: moved or not, a home page or an error page instead of the page. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..urls import parse, same_page, split, without_fragment

PERMANENT = frozenset({301, 308})
"""RFC 9110, 15.4: the address has changed for good."""

REFRESH = 0
"""Stands for the status of a redirect where a page does it (`<meta http-equiv=refresh>`)."""

RESOLVERS = (
    "doi.org",
    "hdl.handle.net",
    "purl.org",
    "purl.oclc.org",
    "w3id.org",
    "n2t.net",
    "identifiers.org",
    "nbn-resolving.org",
    "nbn-resolving.de",
    "urn.fi",
    "ark.bnf.fr",
    "orcid.org",
)
"""Hosts of identifiers that are meant to stay: what they redirect to is not a new address. Subdomains are included."""

_HOME = re.compile(
    r"/(?:[a-z]{2}(?:[-_][a-z]{2})?/?|(?:index|home|default|main|welcome)(?:\.\w{2,5})?/?)?", re.IGNORECASE
)
_ERROR_QUERY = re.compile(
    r"(?:[\w.-]*(?:err|404|not_?found|msg|utm_|ref|from|redirect|lang|return)[^&]*(?:&|$))*", re.I
)
_ERROR_PATH = re.compile(
    r"/(?:40[34]|410|(?:page|file|document|item)?[-_]?not[-_]?found|(?:page|error)[-_]?404|404[-_]?(?:error|page|not[-_]?found)"
    r"|errors?|missing|gone)(?:\.\w{2,5})?/?$",
    re.IGNORECASE,
)
_PARKING_HOSTS = ("hugedomains.com", "sedoparking.com", "dan.com", "afternic.com", "parkingcrew.net", "bodis.com")


@dataclass(frozen=True)
class Hop:
    """One redirect."""

    url: str
    status: int


def is_moved(hops: Sequence[Hop]) -> bool:
    """Whether each redirect says that the address has changed for good. One from a resolver of identifiers never does."""
    return all(hop.status in PERMANENT for hop in hops) and not is_resolver(hops[0].url)


def is_resolver(href: str) -> bool:
    return _is_of(split(href).host, RESOLVERS)


def instead_of_the_page(asked: str, found: str) -> str | None:
    """Why the page at the end of redirects is not the one that was asked for, as the end of a sentence; None if it may be.

    A redirect of a deep link to its site's home page stands for "not found". So does one to another site's home page,
    unless the link is that of a resolver or as short as those of services that shorten addresses.
    """
    if _is_of(split(found).host, _PARKING_HOSTS) and not same_site(asked, found):
        return "where the domain is for sale"
    path = split(found).target.partition("?")[0]
    if _ERROR_PATH.search(path) and not _ERROR_PATH.search(split(asked).target.partition("?")[0]):
        return "which is an error page"
    if not is_home(found) or is_home(asked) or same_page(asked, found):
        return None
    is_short = len([part for part in split(asked).target.partition("?")[0].split("/") if part]) < 2
    if same_site(asked, found) or not (is_short or is_resolver(asked)):
        return "the home page"
    return None


def is_home(href: str) -> bool:
    """Whether a URL is that of a site's first page, in any language, whatever error or origin its query names."""
    path, _, query = split(href).target.partition("?")
    return _HOME.fullmatch(path) is not None and _ERROR_QUERY.fullmatch(query) is not None


def same_site(one: str, other: str) -> bool:
    """Whether two hosts are of one site, as far as their names say: equal, or one is the other's subdomain."""
    first, second = (split(href).host.removeprefix("www.") for href in (one, other))
    return first == second or first.endswith("." + second) or second.endswith("." + first)


def with_fragment(href: str, fragment: str) -> str:
    """A URL with the fragment that was asked for, unless it has one: as browsers carry it over redirects."""
    return parse(f"{href}#{fragment}") if fragment and "#" not in href else href


def fragment_of(href: str) -> str:
    """The part after the first `#`, as it is written; '' without one."""
    return href.partition("#")[2]


def differ_only_in(one: str, other: str) -> str | None:
    """What alone tells two addresses of a page apart, in words for people; None where there is more."""
    if not same_page(one, other):
        return None
    a, b = split(without_fragment(one)), split(without_fragment(other))
    found = [
        word
        for word, differs in (
            (f"{a.scheme} → {b.scheme}", a.scheme != b.scheme),
            ("www.", a.host != b.host),
            ("the slash at the end", a.target != b.target),
        )
        if differs
    ]
    return ", ".join(found) or None


def _is_of(host: str, sites: Sequence[str]) -> bool:
    return any(host == site or host.endswith("." + site) for site in sites)
