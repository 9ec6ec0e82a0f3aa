"""Pages that stand in the way: login, captcha, cookie refusal, "not here", "not for you", "needs scripts" — told from
articles that merely mention such things.

Every test asks for the thing itself: a password field, a captcha's element, a title that says nothing else. And it
asks for the lack of what an article has: running text, an abstract, metadata of a work.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..errors import BlockedCaptcha, BlockedCookie, BlockedForbidden, BlockedWall, IngestError, JsRequired, Soft404
from ..policy import is_wall
from ..urls import mask
from .notices import CHALLENGE, CHALLENGE_TEXT, COOKIE, COOKIE_TEXT, FORBIDDEN, LOGIN, MISSING, SCRIPT_TEXT, Notice
from .text import PageText

WALL_WORDS = 600
"""More words of its own than this, lists and labels included, and a page is no wall."""
NOTICE_PROSE = 100
"""Running text that may explain a notice; more is a text in its own right."""
LONG_PROSE = 250
"""Running text that may stand beside a login form: help, privacy, warnings."""
SHORT_WORDS = 80
"""On a page of so few words, a notice may stand in its text alone."""
EMPTY_WORDS = 40
"""A page that only a script fills shows fewer words than this."""
BARE_WORDS = 12
"""Own words, at most, of such a page whose frame of navigation the server did fill."""
LOADING_WORDS = 4
"""Words of a page that so far says only that it is loading."""

# Elements of products that stand before a site, by class, id or address. Their watching scripts, which ordinary pages
# carry too, are none of these.
_CHALLENGE_MARK = re.compile(
    r"challenge-(?:form|running|error|stage|body|container)|cf[-_]chl|chl_page|/orchestrate/|cf-(?:challenge|browser-verification|please-wait)"
    r"|captcha-delivery|_incapsula_resource\?(?!swjiylwa)|px-captcha|captcha\.px-|validate\.perfdrive|shieldsquare"
    r"|sec-(?:if-)?cpt|cp_challenge|aws-?waf-?captcha|amzn-captcha|within\.website|anubis|check\.ddos-guard|distil[-_]?(?:captcha|r-|identification)"
    r"|nc_wrapper|nocaptcha|waf[-_]?(?:captcha|nc)|go-away|sucuri_|kpsdk"
)
_WIDGET_MARK = re.compile(r"captcha|cf-turnstile|geetest|friendly-challenge|arkose|slider-?verif")
_FEDERATION_MARK = re.compile(
    r"saml(?:request|response|ds)|relaystate|user_idp|entityid|j_username|shibboleth|openathens|wayf|discofeed|idpselect|idp-?(?:list|select|search)"
    r"|discovery-?(?:service|feed)|loginfmt|kc-(?:form|page)|ezproxy|/cas/login|seamlessaccess|authstate|wsignin"
)
_DOI = re.compile(r"\b10\.\d{4,9}/\S")
# "Page title | Site name", "Site name - Page title": each part is looked at by itself.
_TITLE_PARTS = re.compile(r"\s+[|\-–—·:»]\s+|\s*[|»]\s*")
_SENTENCES = re.compile(r"(?<=[.!])\s+|(?<=[。！])")
_EDGES = " .!?。！？…:;,'\"«»„“”‘’|-–—*"


def wall(url: str, text: PageText) -> IngestError | None:
    """What stands at a page instead of what was wanted, or None if it is a page in its own right."""
    if text.words > WALL_WORDS or ((text.has_citation or text.has_abstract) and text.words > EMPTY_WORDS):
        return None
    where = mask(url)
    if _is_challenged(text):
        return BlockedCaptcha(f"a captcha stands at {where}")
    if not text.asks_password and _is_notice(text, COOKIE):
        return BlockedCookie(f"the page at {where} insists on cookies: {_said(text)!r}")
    if _is_login(url, text):
        return BlockedWall(f"a login page stands at {where}")
    if _is_notice(text, MISSING) or (text.says_missing and text.prose <= NOTICE_PROSE):
        return Soft404(f"the page at {where} says that nothing is there: {_said(text)!r}")
    if _is_notice(text, FORBIDDEN):
        return BlockedForbidden(f"the page at {where} refuses access: {_said(text)!r}")
    if _asks_for_cookies(text):
        return BlockedCookie(f"the page at {where} insists on cookies")
    if _needs_scripts(text):
        return JsRequired(f"the page at {where} is empty without scripts")
    return None


def _is_challenged(text: PageText) -> bool:
    if text.prose > NOTICE_PROSE:
        return False
    if _CHALLENGE_MARK.search(text.marks):
        return True
    # A login form may carry a captcha, and a refusal the title of a challenge; they are what they are all the same.
    if text.asks_password or any(FORBIDDEN.says(heading) for heading in _first_headings(text)):
        return False
    if _is_notice(text, CHALLENGE):
        return True
    has_widget = _WIDGET_MARK.search(text.marks) is not None
    if _DOI.search(text.start):
        return False
    return (has_widget and text.words <= EMPTY_WORDS) or (
        CHALLENGE_TEXT.search(text.start) is not None and (has_widget or text.words <= SHORT_WORDS)
    )


def _is_login(url: str, text: PageText) -> bool:
    if text.prose > LONG_PROSE:
        return False
    if is_wall(url):
        return True
    if _DOI.search(text.start) and text.words > EMPTY_WORDS:
        return False
    federated = _FEDERATION_MARK.search(text.marks) is not None
    if text.has_password or federated:
        if any(LOGIN.says(name) for name in (*_title_names(text), *_first_headings(text))):
            return True
        return text.words <= (EMPTY_WORDS if text.asks_password else BARE_WORDS)
    # Some ask for the name first, and for the password on the next page; some leave the choice to a script.
    return (
        text.prose <= SHORT_WORDS
        and text.words <= 2 * NOTICE_PROSE
        and any(LOGIN.says(name) for name in (*_title_names(text), *_first_headings(text)[:1]))
    )


def _is_notice(text: PageText, notice: Notice) -> bool:
    """Whether the title, a first heading or, on a short page, a first sentence is such a notice."""
    if text.prose > NOTICE_PROSE:
        return False
    names = [*_title_names(text), *_first_headings(text)]
    if any(notice.says(name) for name in names):
        return True
    return text.words <= SHORT_WORDS and any(notice.says(sentence) for sentence in _first_sentences(text))


def _asks_for_cookies(text: PageText) -> bool:
    if text.prose > NOTICE_PROSE or text.words > 2 * NOTICE_PROSE or _DOI.search(text.start):
        return False
    own = "\n".join(text.notices) if text.words > BARE_WORDS else text.start
    return COOKIE_TEXT.search(own) is not None


def _needs_scripts(text: PageText) -> bool:
    if not text.scripts or text.prose:
        return False
    told = SCRIPT_TEXT.search(text.noscript) is not None or SCRIPT_TEXT.search(text.start) is not None
    if text.all_words <= EMPTY_WORDS:
        return told or text.has_mount or text.all_words <= LOADING_WORDS
    return text.words <= BARE_WORDS and (told or text.has_mount)


def _title_names(text: PageText) -> list[str]:
    if not text.title:
        return []
    return [name for part in (text.title, *_TITLE_PARTS.split(text.title)) if (name := part.strip(_EDGES))]


def _first_headings(text: PageText) -> list[str]:
    """The first h1, and what other headings stand at the beginning."""
    return [name for part in (text.first_heading, *text.headings[:3]) if (name := part.strip(_EDGES))]


def _first_sentences(text: PageText) -> Iterator[str]:
    for block in text.notices[:6] or (text.start[:300],):
        for sentence in (block, *_SENTENCES.split(block)[:3]):
            if name := sentence.strip(_EDGES):
                yield name


def _said(text: PageText) -> str:
    return (text.first_heading or text.title or text.start)[:120]
