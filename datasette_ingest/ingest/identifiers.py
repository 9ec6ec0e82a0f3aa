"""Identifiers of works, people and serials: a text -> the identifier in one form, or None where it is none.

Grammar and check digits as their agencies give them. Functions of a text alone; none of them raises.
"""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import unquote

DOI_PREFIX = r"10\.[0-9]{4,9}(?:\.[0-9]+)*"
"""The pattern of a DOI's prefix: a registrant, subdivided by dots (DOI handbook, 2.2)."""
MAX_LENGTH = 100
"""Longest text of an ISSN, ISBN, PMID or the like, in characters."""

_DOI = re.compile(DOI_PREFIX + r"/[^\s\"\x00-\x1f\x7f]+")
_DOI_ADDRESS = re.compile(
    r"(?:(?:https?:)?/*(?:dx\.|www\.)?doi\.org/+|(?:info:|urn:)?doi[:/]?\s*"
    r"|https?://[^\s/]+/(?:[^\s?#]*/)?(?=10\.))",
    re.IGNORECASE,
)
_ORCID = re.compile(r"(?<!\d)(\d{4}-\d{4}-\d{4}-\d{3}[\dXx])(?!\d)", re.ASCII)
_ISSN = re.compile(r"(?:\w*issn\w*[:\s]*)?([0-9]{4})\s*[-–]?\s*([0-9]{3}[0-9X])(?:\s*\(.*\))?", re.IGNORECASE)
_PMID = re.compile(r"(?:pmid:?\s*|https?://\S*?/)?([1-9]\d{0,7})/?", re.IGNORECASE | re.ASCII)
_PMCID = re.compile(r"(?:.*/)?(?:pmcid:?\s*)?(?:pmc)?([1-9]\d{2,8})/?", re.IGNORECASE | re.ASCII)
_ARXIV_ID = re.compile(
    r"(?:arxiv:\s*|https?://arxiv\.org/abs/)?(\d{4}\.\d{4,5}(?:v\d+)?|[a-z-]+(?:\.[A-Z]{2})?/\d{7}(?:v\d+)?)",
    re.IGNORECASE | re.ASCII,
)


def find_doi(text: str) -> str | None:
    """The bare DOI, lower-case, of a text that is one in any spelling, with or without a resolver's address."""
    text = unescape(text.strip()[:2000])
    if "%2f" in text.lower():
        text = unquote(text)
    address = _DOI_ADDRESS.match(text)
    match = _DOI.fullmatch(text, address.end() if address else 0)
    if match is None:
        return None
    doi = match[0].lower()
    if address and "//" in address[0]:
        doi = doi.partition("?")[0].partition("#")[0]
    doi = doi.rstrip(".,;:'")
    while doi.endswith(")") and doi.count(")") > doi.count("("):
        doi = doi[:-1]
    return doi if not doi.endswith("/") else None


def clean_orcid(text: str) -> str | None:
    """The ORCID iD that stands anywhere in a text (ISO 7064, MOD 11-2)."""
    match = _ORCID.search(text)
    if match is None:
        return None
    digits = match[1].replace("-", "").upper()
    total = 0
    for digit in digits[:-1]:
        total = (total + int(digit)) * 2
    return match[1].upper() if "0123456789X"[(12 - total % 11) % 11] == digits[-1] else None


def clean_issn(text: str) -> str | None:
    match = _ISSN.fullmatch(text.strip()[:MAX_LENGTH])
    if match is None:
        return None
    digits = (match[1] + match[2]).upper()
    return f"{digits[:4]}-{digits[4:]}" if _is_mod_11(digits) else None


def clean_isbn(text: str) -> str | None:
    """An ISBN of ten or thirteen digits, without hyphens."""
    digits = re.sub(r"[^0-9X]", "", text.lower().removeprefix("urn:").removeprefix("isbn").upper())
    if re.fullmatch(r"97[89]\d{10}", digits):
        return digits if sum(int(d) * (3 if at % 2 else 1) for at, d in enumerate(digits)) % 10 == 0 else None
    return digits if re.fullmatch(r"\d{9}[\dX]", digits) and _is_mod_11(digits) else None


def clean_pmid(text: str) -> str | None:
    match = _PMID.fullmatch(text.strip())
    return match[1] if match else None


def clean_pmcid(text: str) -> str | None:
    match = _PMCID.fullmatch(text.strip())
    return f"PMC{match[1]}" if match else None


def clean_arxiv_id(text: str) -> str | None:
    match = _ARXIV_ID.fullmatch(text.strip())
    return match[1] if match else None


def _is_mod_11(digits: str) -> bool:
    """Whether the check digit is right that ISSN and ISBN-10 have: each digit times its place from the right, X is 10."""
    total = sum(place * (10 if d == "X" else int(d)) for place, d in enumerate(reversed(digits), 1))
    return total % 11 == 0 and int(digits[:-1]) > 0
