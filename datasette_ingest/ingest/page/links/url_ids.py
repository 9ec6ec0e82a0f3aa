"""What tells a work's own links from other works': the ids in its page's address, and its DOI."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from urllib.parse import unquote

from ...urls import split

_PART = re.compile(r"[^/?&=#;,]+")
_NUMBER = re.compile(r"(?<!\d)\d{4,}(?!\d)")
_DOI_PREFIX = re.compile(r"10\.\d{4,9}(?:\.\d+)*")
_NO_IDS = re.compile(r";[a-z]*sess[^?/]*|(?<!\d)10\.\d{4,9}(?:\.\d+)*(?=/)", re.I)
_ENDING = re.compile(r"\.(?:[xs]?html?|php|aspx?|jsp|cfm)$")
_MAX_TARGET = 1000
"""How much of a path and query is looked through, in characters."""
_SHORTEST = 3
_LONGEST_WORD = 20
_SHORTEST_SLUG = 8


class Kinship(Enum):
    """What an address says of the work that a page is about."""

    OWN = auto()
    """It names the page's id or the work's DOI."""
    NEAR = auto()
    """It names what stands before the id in the page's address: its volume, its first page."""
    NUMBER = auto()
    """It names a number of the page's address."""
    OTHER = auto()
    """It names an id of the same form, and another one."""
    UNKNOWN = auto()


@dataclass(frozen=True)
class Ids:
    """The ids of a page. Patterns over lower-case addresses without percent-encoding."""

    own: tuple[re.Pattern[str], ...]
    before: re.Pattern[str] | None
    like: re.Pattern[str] | None
    """Ids of the same form: the same letters, other digits."""
    numbers: frozenset[str]

    def kinship(self, url: str) -> Kinship:
        text = unquote(url).lower()
        if self.name_one(url):
            return Kinship.OWN
        if self.before is not None and self.before.search(text):
            return Kinship.NEAR
        if self.like is not None and self.like.search(text):
            return Kinship.OTHER
        numbers = _numbers(url)
        if not self.numbers.isdisjoint(numbers):
            return Kinship.NUMBER
        lengths = {len(number) for number in self.numbers}
        return Kinship.OTHER if any(len(number) in lengths for number in numbers) else Kinship.UNKNOWN

    def name_one(self, url: str) -> bool:
        """Whether the address names the page's id or the work's DOI."""
        text = unquote(url).lower()
        return any(pattern.search(text) for pattern in self.own)


def ids_of(url: str, doi: str = "") -> Ids:
    """The ids of the page at that address, whose work has that DOI."""
    parts = _parts(url)
    own = [part for part in parts[-1:] if len(part) >= _SHORTEST]
    suffix = doi.lower().partition("/")[2]
    if len(suffix) > _SHORTEST:
        own.append(suffix)
    before = [part for part in parts[-2:-1] if len(part) >= _SHORTEST]
    return Ids(
        own=tuple(_bounded(re.escape(part)) for part in dict.fromkeys(own)),
        before=_bounded(re.escape(before[0])) if before else None,
        like=_like(parts[-1]) if parts else None,
        numbers=frozenset(_numbers(url)),
    )


def _parts(url: str) -> list[str]:
    """The parts of an address that can be ids: with a digit, long, or a slug."""
    target = unquote(split(url).target[:_MAX_TARGET]).lower()
    parts = (_ENDING.sub("", part) for part in _PART.findall(target) if not _DOI_PREFIX.fullmatch(part))
    return [part for part in parts if any(c.isdigit() for c in part) or len(part) > _LONGEST_WORD or _is_slug(part)]


def _is_slug(part: str) -> bool:
    return "-" in part and len(part) >= _SHORTEST_SLUG


def _like(part: str) -> re.Pattern[str] | None:
    # Of numbers alone, a file's may be as long as its work's.
    if part.isdigit() or sum(c.isdigit() for c in part) < _SHORTEST:
        return None
    return _bounded("".join(r"\d" if c.isdigit() else re.escape(c) for c in part))


def _numbers(url: str) -> list[str]:
    """The numbers in an address that can be ids; a session's is none, nor is a publisher's in a DOI."""
    return _NUMBER.findall(_NO_IDS.sub("", unquote(split(url).target[:_MAX_TARGET])))


def _bounded(pattern: str) -> re.Pattern[str]:
    return re.compile(f"(?<![a-z0-9]){pattern}(?![a-z0-9])")
