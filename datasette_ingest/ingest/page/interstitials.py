"""Recognise interstitial pages: login, captcha, cookie refusal, "not here", "not for you", "needs scripts".

An article may mention such things. So every test asks for the thing itself (a password field, a captcha's element, a title
that says nothing else) and for the lack of what an article has: running text, an abstract, metadata of a work.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..errors import BlockedCaptcha, BlockedCookie, BlockedForbidden, BlockedWall, IngestError, JsRequired, Soft404
from ..identifiers import DOI_PREFIX
from ..policy import is_wall
from ..urls import mask
from .phrases import pattern
from .text import PageText

INTERSTITIAL_WORDS = 600
"""A page with more words of its own than this, lists and labels included, is no interstitial."""
EXPLANATION_PROSE = 100
"""Words of running text that may explain a refusal; more is a text in its own right."""
LONG_PROSE = 250
"""Words of running text that may stand beside a login form: help, privacy, warnings."""
SHORT_WORDS = 80
"""On a page of so few words, a phrase may stand in its text alone."""
EMPTY_WORDS = 40
"""A page that only a script fills shows fewer words than this."""
BARE_WORDS = 12
"""Words of its own, at most, of such a page whose navigation the server did fill."""
LOADING_WORDS = 4
"""Words of a page that so far says only that it is loading."""
MAX_REST = 70
"""What may follow the opening words of a notice, in characters."""

_DOI = re.compile(rf"\b{DOI_PREFIX}/\S")
# "Page title | Site name", "Site name - Page title": each part is tested by itself.
_TITLE_PARTS = re.compile(r"\s+[|\-–—·:»]\s+|\s*[|»]\s*")
_SENTENCES = re.compile(r"(?<=[.!])\s+|(?<=[。！])")
_EDGES = " .!?。！？…:;,'\"«»„“”‘’|-–—*"


def interstitial(url: str, text: PageText, *, is_gate: bool = False) -> IngestError | None:
    """The outcome that an interstitial page stands for, or None for a page in its own right.

    `is_gate`: it sends its visitor on to an address that leads back to it, as a check of the visitor does.
    """
    if text.words > INTERSTITIAL_WORDS or ((text.has_citation or text.has_abstract) and text.words > EMPTY_WORDS):
        return None
    where = mask(url)
    if _is_challenge(text) or (is_gate and text.prose <= EXPLANATION_PROSE):
        return BlockedCaptcha(f"the page at {where} asks for a captcha")
    if not text.asks_password and _says(text, "cookies"):
        return BlockedCookie(f"the page at {where} requires cookies: {_quoted(text)!r}")
    if _is_login(url, text):
        return BlockedWall(f"the page at {where} asks for a login")
    if _says(text, "missing") or (text.says_missing and text.prose <= EXPLANATION_PROSE):
        return Soft404(f"the page at {where} says that nothing is there: {_quoted(text)!r}")
    if _says(text, "forbidden"):
        return BlockedForbidden(f"the page at {where} refuses access: {_quoted(text)!r}")
    if _asks_for_cookies(text):
        return BlockedCookie(f"the page at {where} requires cookies")
    if _needs_scripts(text):
        return JsRequired(f"the page at {where} is empty without scripts")
    return None


def is_parked(text: PageText) -> bool:
    """Whether the page is that of a domain which is for sale, has expired, or was never used.

    A title, heading or first sentence says so, or the page is a parking service's own, which has hardly any text.
    """
    if text.prose > EXPLANATION_PROSE or text.words > INTERSTITIAL_WORDS:
        return False
    if _says(text, "parked"):
        return True
    return text.words <= SHORT_WORDS and pattern("markup.parking").search(text.attribute_text) is not None


def _is_challenge(text: PageText) -> bool:
    if text.prose > EXPLANATION_PROSE:
        return False
    if pattern("markup.challenge").search(text.attribute_text):
        return True
    # A login form may have a captcha, and a refusal the title of a challenge.
    if text.asks_password or any(is_notice("forbidden", heading) for heading in _first_headings(text)):
        return False
    if _says(text, "challenge"):
        return True
    if _DOI.search(text.start):
        return False
    has_captcha = pattern("markup.captcha").search(text.attribute_text) is not None
    return (has_captcha and text.words <= EMPTY_WORDS) or (
        (has_captcha or text.words <= SHORT_WORDS) and _mentions("challenge", text.start)
    )


def _is_login(url: str, text: PageText) -> bool:
    if text.prose > LONG_PROSE:
        return False
    if is_wall(url):
        return True
    if _DOI.search(text.start) and text.words > EMPTY_WORDS:
        return False
    if text.has_password or pattern("markup.federation").search(text.attribute_text):
        if any(is_notice("login", name) for name in (*_title_names(text), *_first_headings(text))):
            return True
        return text.words <= (EMPTY_WORDS if text.asks_password else BARE_WORDS)
    # Some ask for the name first, and for the password on the next page; some leave the choice to a script.
    return (
        text.prose <= SHORT_WORDS
        and text.words <= 2 * EXPLANATION_PROSE
        and any(is_notice("login", name) for name in (*_title_names(text), *_first_headings(text)[:1]))
    )


def _says(text: PageText, kind: str) -> bool:
    """Whether the title, a first heading or, on a short page, a first sentence says this."""
    if text.prose > EXPLANATION_PROSE:
        return False
    if any(is_notice(kind, name) for name in (*_title_names(text), *_first_headings(text))):
        return True
    return text.words <= SHORT_WORDS and any(is_notice(kind, sentence) for sentence in _first_sentences(text))


def _asks_for_cookies(text: PageText) -> bool:
    if text.prose > EXPLANATION_PROSE or text.words > 2 * EXPLANATION_PROSE or _DOI.search(text.start):
        return False
    own = "\n".join(text.first_blocks) if text.words > BARE_WORDS else text.start
    return _mentions("cookies", own)


def _needs_scripts(text: PageText) -> bool:
    if not text.scripts or text.prose or (text.all_words > EMPTY_WORDS and text.words > BARE_WORDS):
        return False
    if text.has_mount or text.all_words <= LOADING_WORDS:
        return True
    return _mentions("javascript", text.noscript) or _mentions("javascript", text.start)


def is_notice(kind: str, text: str) -> bool:
    """Whether a title, heading or sentence says this and nothing else, or says it first and little more.

    "Not found" is a notice, "Not found in nature: alkaloids of the moss" a paper. What follows a colon must say it again,
    for titles of works go on in this way.
    """
    if pattern(f"interstitials.{kind}.whole").fullmatch(text):
        return True
    match = pattern(f"interstitials.{kind}.opening").match(text)
    if match is None or len(text) - match.end() > MAX_REST:
        return False
    rest = text[match.end() :].lstrip()
    return len(rest) <= 1 or rest[0] not in ":?" or is_notice(kind, rest[1:].strip(" .!"))


def _mentions(kind: str, text: str) -> bool:
    return pattern(f"interstitials.{kind}.text").search(text) is not None


def _title_names(text: PageText) -> list[str]:
    if not text.title:
        return []
    return [name for part in (text.title, *_TITLE_PARTS.split(text.title)) if (name := part.strip(_EDGES))]


def _first_headings(text: PageText) -> list[str]:
    """The first h1, and the first three headings of any level."""
    return [name for part in (text.first_heading, *text.headings[:3]) if (name := part.strip(_EDGES))]


def _first_sentences(text: PageText) -> Iterator[str]:
    for block in text.first_blocks[:6] or (text.start[:300],):
        for sentence in (block, *_SENTENCES.split(block)[:3]):
            if name := sentence.strip(_EDGES):
                yield name


def _quoted(text: PageText) -> str:
    return (text.first_heading or text.title or text.start)[:120]
