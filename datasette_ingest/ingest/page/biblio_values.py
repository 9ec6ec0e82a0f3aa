"""A text that stands for a bibliographic fact -> the fact in one form, or None where it cannot be believed.

Functions of a text alone; none of them raises.
"""

from __future__ import annotations

import re
from datetime import date
from html import unescape
from urllib.parse import unquote

MAX_TITLE = 1000
"""Characters; longer ones are cut, as is everything below."""
MAX_NAME = 300
MAX_ABSTRACT = 5000
MAX_NUMBER = 40
"""Longest volume, issue or page number; more is text."""
MAX_IDENTIFIER = 100
"""Longest text of an ISSN, ISBN, PMID or the like."""
YEARS = range(1400, 2101)
"""What can be a year of publication."""

STAGES = ("draft", "submitted", "accepted", "published")
"""Release stages, as readers of catalogues know them."""

_TAG = re.compile(
    r"</?(?:i|b|em|strong|su[bp]|span|p|br|u|a|div|sc|tt|font|italic|bold|jats:\w+|mml:\w+|math|m\w{1,8})\b[^<>]*>",
    re.IGNORECASE,
)
# What templates leave where they had nothing to fill in.
_NOTHING = frozenset(
    "n/a na none null undefined nan unknown untitled [untitled] anonymous author title abstract tbd tba".split()  # noqa: SIM905
) | {"no title", "not available", "no abstract available", "[object object]", "no abstract", "abstract not available"}
LIST = re.compile(r"\s*[;,|]\s*|\s+(?=\d{4}-)")
PAGE_RANGE = re.compile(r"(?:pp?\.?\s*)?([A-Za-z]{0,3}\d{1,7}[A-Za-z]?)\s*[-–—‐−]+\s*([A-Za-z]{0,3}\d{1,7}[A-Za-z]?)")
_DOI = re.compile(r"10\.\d{4,9}(?:\.\d+)*/[^\s\"\x00-\x1f\x7f]+")
_DOI_PREFIX = re.compile(r"(?:(?:https?:)?/*(?:dx\.|www\.)?doi\.org/+|(?:info:|urn:)?doi[:/]?\s*|https?://[^\s/]+/(?:[^\s?#]*/)?(?=10\.))", re.IGNORECASE)  # fmt: skip


def squeezed(text: str, limit: int) -> str | None:
    """The text without markup and superfluous blanks, cut at a word; None where it says nothing."""
    text = " ".join(_TAG.sub("", text[: 4 * limit]).split())
    if text.lower() in _NOTHING or not any(character.isalnum() for character in text):
        return None
    if len(text) <= limit:
        return text
    return text[:limit].rpartition(" ")[0] or text[:limit]


def clean_title(text: str) -> str | None:
    return squeezed(text, MAX_TITLE)


def clean_name(text: str) -> str | None:
    name = squeezed(text, MAX_NAME)
    return None if name is None or name.startswith(("http://", "https://")) else name.strip(" ;,") or None


def clean_abstract(text: str) -> str | None:
    return squeezed(text, MAX_ABSTRACT)


def clean_number(text: str) -> str | None:
    number = squeezed(text, 4 * MAX_NUMBER)
    return number if number is not None and len(number) <= MAX_NUMBER else None


def find_doi(text: str) -> str | None:
    """The bare DOI, lower-case, of a text that is one in any spelling, with or without a resolver's address; else None."""
    text = unescape(text.strip()[:2000])
    if "%2f" in text.lower():
        text = unquote(text)
    prefix = _DOI_PREFIX.match(text)
    match = _DOI.fullmatch(text, prefix.end() if prefix else 0)
    if match is None:
        return None
    doi = match[0].lower().partition("?")[0].partition("#")[0] if prefix and "//" in prefix[0] else match[0].lower()
    doi = doi.rstrip(".,;:'")
    while doi.endswith(")") and doi.count(")") > doi.count("("):
        doi = doi[:-1]
    return doi if not doi.endswith("/") else None


def clean_orcid(text: str) -> str | None:
    match = re.search(r"(?<!\d)(\d{4}-\d{4}-\d{4}-\d{3}[\dXx])(?!\d)", text, re.ASCII)
    if match is None:
        return None
    total = 0
    digits = match[1].replace("-", "").upper()
    for digit in digits[:-1]:
        total = (total + int(digit)) * 2
    # ISO 7064, MOD 11-2
    return match[1].upper() if "0123456789X"[(12 - total % 11) % 11] == digits[-1] else None


def clean_issn(text: str) -> str | None:
    match = re.fullmatch(
        r"(?:\w*issn\w*[:\s]*)?(\d{4})\s*[-–]?\s*(\d{3}[\dXx])(?:\s*\(.*\))?",
        text.strip()[:MAX_IDENTIFIER],
        re.IGNORECASE,
    )
    if match is None:
        return None
    digits = (match[1] + match[2]).upper()
    total = sum((8 - at) * int(digit) for at, digit in enumerate(digits[:-1]))
    return f"{digits[:4]}-{digits[4:]}" if "0123456789X"[-total % 11] == digits[-1] and int(digits[:-1]) else None


def clean_isbn(text: str) -> str | None:
    digits = re.sub(r"[^0-9Xx]", "", text.lower().removeprefix("urn:").removeprefix("isbn")).upper()
    if re.fullmatch(r"97[89]\d{10}", digits):
        return digits if sum(int(d) * (3 if at % 2 else 1) for at, d in enumerate(digits)) % 10 == 0 else None
    if re.fullmatch(r"\d{9}[\dX]", digits):
        total = sum((10 - at) * (10 if d == "X" else int(d)) for at, d in enumerate(digits))
        return digits if total % 11 == 0 and int(digits[:-1]) else None
    return None


def clean_pmid(text: str) -> str | None:
    match = re.fullmatch(r"(?:pmid:?\s*|https?://\S*?/)?([1-9]\d{0,7})/?", text.strip(), re.IGNORECASE | re.ASCII)
    return match[1] if match else None


def clean_pmcid(text: str) -> str | None:
    match = re.fullmatch(r"(?:.*/)?(?:pmcid:?\s*)?(?:pmc)?([1-9]\d{2,8})/?", text.strip(), re.IGNORECASE | re.ASCII)
    return f"PMC{match[1]}" if match else None


def clean_arxiv_id(text: str) -> str | None:
    match = re.fullmatch(
        r"(?:arxiv:\s*|https?://arxiv\.org/abs/)?(\d{4}\.\d{4,5}(?:v\d+)?|[a-z-]+(?:\.[A-Z]{2})?/\d{7}(?:v\d+)?)",
        text.strip(),
        re.IGNORECASE | re.ASCII,
    )
    return match[1] if match else None


# Dates

_MONTH_NAMES = (
    "jan january januar janvier enero janeiro gennaio januari ocak январь января",
    "feb february februar février fevrier febrero fevereiro febbraio februari şubat февраль февраля",
    "mar march mär märz marz mars marzo março maart mart март марта",
    "apr april avril abril aprile nisan апрель апреля",
    "may mai mayo maio maggio mei mayıs май мая",
    "jun june juni juin junio junho giugno haziran июнь июня",
    "jul july juli juillet julio julho luglio temmuz июль июля",
    "aug august août aout agosto augustus ağustos август августа",
    "sep sept september septembre septiembre setembro settembre eylül сентябрь сентября",
    "oct okt oktober october octobre octubre outubro ottobre ekim октябрь октября",
    "nov november novembre noviembre novembro kasım ноябрь ноября",
    "dec dez dezember december décembre decembre diciembre dezembro dicembre aralık декабрь декабря",
)
_MONTHS = {name: number for number, names in enumerate(_MONTH_NAMES, 1) for name in names.split()}
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
    text = " ".join(text.split())[:100].strip(" .,;")
    if match := (_COMPACT.fullmatch(text) or _NUMERIC.fullmatch(text) or _EAST_ASIAN.fullmatch(text)):
        return _date(match[1], match[2], match[3])
    if match := _YEAR_LAST.fullmatch(text):
        return _year_last(match[1], match[2], match[3], match[4])
    years = _YEAR.findall(text)
    if len(set(years)) != 1:
        return None
    month = next((_MONTHS[word] for word in _WORD.findall(text.lower()) if word in _MONTHS), None)
    if month is None:
        return _date(years[0])
    days = _DAY.findall(text.replace(years[0], " "))
    return _date(years[0], str(month), days[0] if days else None)


def _year_last(first: str | None, mark: str | None, second: str, year: str) -> str | None:
    if first is None:
        return _date(year, second)
    # With dots it is the day that comes first; with slashes only a number beyond 12 tells.
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

_CC_URL = re.compile(r"https?://(?:www\.)?creativecommons\.org/(licenses/[a-z-]+/\d\.\d(?:/[a-z]{2,3}(?![a-z]))?|publicdomain/(?:zero|mark)/1\.0)", re.IGNORECASE)  # fmt: skip
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
    text = " ".join(text.split())
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


_LANGUAGES = {
    "en": "eng english inglés englisch anglais",
    "de": "deu ger german deutsch",
    "fr": "fra fre french français",
    "es": "spa spanish español castellano",
    "pt": "por portuguese português",
    "it": "ita italian italiano",
    "nl": "nld dut dutch nederlands",
    "ru": "rus russian русский",
    "uk": "ukr ukrainian українська",
    "pl": "pol polish polski",
    "cs": "ces cze czech čeština",
    "tr": "tur turkish türkçe",
    "id": "ind indonesian indonesia",
    "zh": "zho chi chinese 中文",
    "ja": "jpn japanese 日本語",
    "ko": "kor korean 한국어",
    "ar": "ara arabic العربية",
    "fa": "fas per persian فارسی",
    "hu": "hun hungarian magyar",
    "ca": "cat catalan català",
    "sv": "swe swedish svenska",
    "la": "lat latin",
}
_LANGUAGE_CODES = {name: code for code, names in _LANGUAGES.items() for name in names.split()}


def clean_language(text: str) -> str | None:
    word = text.strip().lower().replace("_", "-")
    if word in _LANGUAGE_CODES:
        return _LANGUAGE_CODES[word]
    match = re.fullmatch(r"([a-z]{2,3})(?:-[a-z0-9]{2,8})*", word)
    if match is None or match[1] in ("xx", "xxx", "und", "mul", "zxx", "oth"):
        return None
    return _LANGUAGE_CODES.get(match[1], match[1])


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
