"""Clean the text of a bibliographic fact: one form for each fact, or None for what cannot be believed.

Functions of a text alone; none of them raises. Identifiers are in ingest/identifiers.py.
"""

from __future__ import annotations

import re
from datetime import date

from .html import squeeze
from .phrases import languages, months, words

MAX_TITLE = 1000
"""Characters; longer ones are cut, as is everything below."""
MAX_NAME = 300
MAX_ABSTRACT = 5000
MAX_NUMBER = 40
"""Longest volume, issue or page number; more is text."""
YEARS = range(1400, 2101)
"""Years in which a work can have appeared."""


_TAG = re.compile(
    r"</?(?:i|b|em|strong|su[bp]|span|p|br|u|a|div|sc|tt|font|italic|bold|jats:\w+|mml:\w+|math|m\w{1,8})\b[^<>]*>",
    re.IGNORECASE,
)
LIST = re.compile(r"\s*[;,|]\s*|\s+(?=\d{4}-)")
PAGE_RANGE = re.compile(r"(?:pp?\.?\s*)?([A-Za-z]{0,3}\d{1,7}[A-Za-z]?)\s*[-–—‐−]+\s*([A-Za-z]{0,3}\d{1,7}[A-Za-z]?)")


def clean_text(text: str, limit: int) -> str | None:
    """The text without markup and superfluous blanks, cut at a word; None for a placeholder or no letter or digit."""
    text = squeeze(_TAG.sub("", text[: 4 * limit]))
    if text.lower() in words("placeholders") or not any(character.isalnum() for character in text):
        return None
    if len(text) <= limit:
        return text
    return text[:limit].rpartition(" ")[0] or text[:limit]


def clean_title(text: str) -> str | None:
    return clean_text(text, MAX_TITLE)


def clean_name(text: str) -> str | None:
    name = clean_text(text, MAX_NAME)
    return None if name is None or name.startswith(("http://", "https://")) else name.strip(" ;,") or None


def clean_abstract(text: str) -> str | None:
    return clean_text(text, MAX_ABSTRACT)


def clean_number(text: str) -> str | None:
    number = clean_text(text, 4 * MAX_NUMBER)
    return number if number is not None and len(number) <= MAX_NUMBER else None


# Dates

_NUMERIC = re.compile(r"(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2}))?)?(?:[T\s].*)?")
_COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})(?:T?\d{4,6}Z?)?")
_YEAR_LAST = re.compile(r"(?:(\d{1,2})([./-]))?(\d{1,2})[./-](\d{4})(?:\s.*)?")
_EAST_ASIAN = re.compile(r"(\d{4})\s*[年년]\s*(?:(\d{1,2})\s*[月월]\s*(?:(\d{1,2})\s*[日일])?)?.*")
_YEAR = re.compile(r"(?<!\d)(1[4-9]\d\d|20\d\d|2100)(?!\d)")
_WORD = re.compile(r"[^\W\d_]+")
_DAY = re.compile(r"(?<![\d:])([0-3]?\d)(?:st|nd|rd|th|\.|º)?(?![\d:])")


def parse_date(text: str) -> str | None:
    """A date in any common spelling as `2020`, `2020-05` or `2020-05-17`: never more exact than it was given.

    `03/04/2020` is read as a year, for it may be March or April.
    """
    text = squeeze(text)[:100].strip(" .,;")
    if match := (_COMPACT.fullmatch(text) or _NUMERIC.fullmatch(text) or _EAST_ASIAN.fullmatch(text)):
        return _date(match[1], match[2], match[3])
    if match := _YEAR_LAST.fullmatch(text):
        return _year_last(match[1], match[2], match[3], match[4])
    years = _YEAR.findall(text)
    if len(set(years)) != 1:
        return None
    numbers = months()
    month = next((numbers[word] for word in _WORD.findall(text.lower()) if word in numbers), None)
    if month is None:
        return _date(years[0])
    days = _DAY.findall(text.replace(years[0], " "))
    return _date(years[0], str(month), days[0] if days else None)


def _year_last(first: str | None, mark: str | None, second: str, year: str) -> str | None:
    if first is None:
        return _date(year, second)
    # With dots the day comes first; with slashes only a number beyond 12 decides.
    if mark == "." or int(first) > 12:
        return _date(year, second, first)
    return _date(year, first, second) if int(second) > 12 else _date(year)


def _date(year: str, month: str | None = None, day: str | None = None) -> str | None:
    # int() also of the digits that other scripts have
    number = int(year)
    if number not in YEARS:
        return None
    if month is None or not 1 <= int(month) <= 12:
        return f"{number}"
    if day is None:
        return f"{number}-{int(month):02}"
    try:
        return date(number, int(month), int(day)).isoformat()
    except ValueError:
        return f"{number}-{int(month):02}"


# Licence, language, stage

_CC_URL = re.compile(
    r"https?://(?:www\.)?creativecommons\.org/"
    r"(licenses/[a-z-]+/\d\.\d(?:/[a-z]{2,3}(?![a-z]))?|publicdomain/(?:zero|mark)/1\.0)",
    re.IGNORECASE,
)
_CC_NAME = re.compile(r"\(?cc[\s-]?(by(?:[\s-](?:nc|nd|sa))*|0|zero)[\s-]*v?(\d\.\d)?", re.IGNORECASE)
_CC_WORDS = (
    ("attribution", "by"),
    ("noncommercial", "nc"),
    ("non-commercial", "nc"),
    ("noderiv", "nd"),
    ("no deriv", "nd"),
    ("sharealike", "sa"),
    ("share alike", "sa"),
)
_SPDX = {"mit": "MIT", "apache-2.0": "Apache-2.0", "gpl-3.0": "GPL-3.0", "odbl-1.0": "ODbL-1.0", "cc0": "CC0-1.0"}


def clean_licence(text: str) -> str | None:
    text = squeeze(text)
    if match := _CC_URL.search(text):
        return f"https://creativecommons.org/{match[1].lower()}/"
    if match := _CC_NAME.search(text):
        return _cc(match[1].lower().replace(" ", "-"), match[2])
    lower = text.lower()
    if "creative commons" in lower and "attribution" in lower:
        parts = dict.fromkeys(part for word, part in _CC_WORDS if word in lower)
        version = re.search(r"\b(\d\.\d)\b", text)
        return _cc("-".join(parts), version[1] if version else None)
    if lower in _SPDX:
        return _SPDX[lower]
    is_address = text.startswith(("http://", "https://")) and " " not in text and len(text) <= MAX_NAME
    return text if is_address and re.search(r"licen[sc]e|opensource\.org|opendatacommons", lower) else None


def _cc(parts: str, version: str | None) -> str:
    if parts in ("0", "zero"):
        return "CC0-1.0"
    return "-".join(part for part in ("CC", parts.upper(), version) if part)


def clean_language(text: str) -> str | None:
    word = text.strip().lower().replace("_", "-")
    codes = languages()
    if word in codes:
        return codes[word]
    match = re.fullmatch(r"([a-z]{2,3})(?:-[a-z0-9]{2,8})*", word)
    if match is None or match[1] in ("xx", "xxx", "und", "mul", "zxx", "oth"):
        return None
    return codes.get(match[1], match[1])


_STAGE_WORDS = (
    # info:eu-repo and COAR version types, EPrints' and schema.org's words
    (
        "published",
        r"(?:info:eu-repo/semantics/)?publishedversion|.*c_970fb48d4fbd8a85|pub|published|version of record|vor",
    ),
    (
        "accepted",
        r"(?:info:eu-repo/semantics/)?acceptedversion|.*c_ab4af688f83e57aa|inpress|in press|accepted(?: manuscript)?|postprint",
    ),
    ("submitted", r"(?:info:eu-repo/semantics/)?(?:submittedversion|preprint)|.*c_71e4c1898caa6e32|submitted|preprint"),
    ("draft", r"(?:info:eu-repo/semantics/)?draft|.*c_b1a7d7d4d402bcce|unpub|unpublished|draft"),
)
_STAGES = tuple((stage, re.compile(pattern, re.IGNORECASE)) for stage, pattern in _STAGE_WORDS)


def clean_release_stage(text: str) -> str | None:
    text = text.strip()
    return next((stage for stage, pattern in _STAGES if pattern.fullmatch(text)), None)
