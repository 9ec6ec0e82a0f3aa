"""Tell a work's own links from other works' links by the ids in its page's URL and by its DOI."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from urllib.parse import unquote

from ...identifiers import DOI_PREFIX
from ...urls import split

_PART = re.compile(r"[^/?&=#;,]+")
_NUMBER = re.compile(r"(?<!\d)\d{4,}(?!\d)")
_DOI_PREFIX = re.compile(DOI_PREFIX)
# A session's number is no id, nor is a publisher's in a DOI.
_NO_IDS = re.compile(rf";[a-z]*sess[^?/]*|(?<!\d){DOI_PREFIX}(?=/)", re.IGNORECASE)
_ENDING = re.compile(r"\.(?:[xs]?html?|php|aspx?|jsp|cfm)$")
_MAX_TARGET = 1000
"""How much of a path and query is read, in characters."""
_SHORTEST = 3
_LONGEST_WORD = 20
_SHORTEST_SLUG = 8


class IdMatch(Enum):
    """What a link's URL says of the work that a page is about."""

    OWN = auto()
    """It has the page's id or the work's DOI."""
    NEAR = auto()
    """It has what stands before the id in the page's URL: its volume, its first page."""
    NUMBER = auto()
    """It has a number of the page's URL."""
    OTHER = auto()
    """It has another id of the same form."""
    UNKNOWN = auto()


@dataclass(frozen=True)
class UrlIds:
    """The ids of a page, as regular expressions over lower-case URLs without percent-encoding. They are compiled when a
    link is compared, since most pages name their files in their metadata."""

    own: tuple[str, ...]
    before: str | None
    alike: str | None
    """Ids of the same form: the same letters, other digits."""
    numbers: frozenset[str]

    def match(self, url: str) -> IdMatch:
        text = unquote(url).lower()
        if self.is_in(url):
            return IdMatch.OWN
        if self.before is not None and re.search(self.before, text):
            return IdMatch.NEAR
        if self.alike is not None and re.search(self.alike, text):
            return IdMatch.OTHER
        numbers = _numbers(url)
        if not self.numbers.isdisjoint(numbers):
            return IdMatch.NUMBER
        lengths = {len(number) for number in self.numbers}
        return IdMatch.OTHER if any(len(number) in lengths for number in numbers) else IdMatch.UNKNOWN

    def is_in(self, url: str) -> bool:
        """Whether a URL has the page's id or the work's DOI."""
        text = unquote(url).lower()
        return any(re.search(pattern, text) for pattern in self.own)

    def behind(self, text: str) -> str | None:
        """What stands behind the last own id in a lower-case text; None if it has none."""
        ends = [match.end() for pattern in self.own for match in re.finditer(pattern, text)]
        return text[max(ends) :] if ends else None


def ids_of(url: str, doi: str = "") -> UrlIds:
    """The ids of the page at that URL, whose work has that DOI."""
    parts = _parts(url)
    own = [part for part in parts[-1:] if len(part) >= _SHORTEST]
    suffix = doi.lower().partition("/")[2]
    if len(suffix) > _SHORTEST:
        own.append(suffix)
    before = [part for part in parts[-2:-1] if len(part) >= _SHORTEST]
    return UrlIds(
        own=tuple(_bounded(re.escape(part)) for part in dict.fromkeys(own)),
        before=_bounded(re.escape(before[0])) if before else None,
        alike=_alike(parts[-1]) if parts else None,
        numbers=frozenset(_numbers(url)),
    )


def _parts(url: str) -> list[str]:
    """The parts of a URL that can be ids: with a digit, long, or a slug."""
    target = unquote(split(url).target[:_MAX_TARGET]).lower()
    parts = (_ENDING.sub("", part) for part in _PART.findall(target) if not _DOI_PREFIX.fullmatch(part))
    return [part for part in parts if any(c.isdigit() for c in part) or len(part) > _LONGEST_WORD or _is_slug(part)]


def _is_slug(part: str) -> bool:
    return "-" in part and len(part) >= _SHORTEST_SLUG


def _alike(part: str) -> str | None:
    # Of numbers alone, a file's may be as long as its work's.
    if part.isdigit() or sum(c.isdigit() for c in part) < _SHORTEST:
        return None
    return _bounded("".join(r"\d" if c.isdigit() else re.escape(c) for c in part))


def _numbers(url: str) -> list[str]:
    """The numbers in a URL that can be ids."""
    return _NUMBER.findall(_NO_IDS.sub("", unquote(split(url).target[:_MAX_TARGET])))


def _bounded(pattern: str) -> str:
    return f"(?<![a-z0-9]){pattern}(?![a-z0-9])"
