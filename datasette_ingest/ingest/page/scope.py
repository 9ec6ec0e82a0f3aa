"""Classify an HTML page: is it the article itself, a page about it, or neither?

What the page says of itself decides first, then its form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from ..errors import IngestError, UnknownScope, WrongScope
from ..facts import HtmlMeta
from ..urls import is_href, mask, mask_texts, same_page, split
from .biblio import Biblio
from .phrases import pattern
from .read import Page
from .text import PageText

STUB_WORDS = 20
"""A page of fewer visible words is a stub."""
ARTICLE_PROSE = 1000
"""Words of running text of its own, abstract and references apart, that make any page an article."""
DIVIDED_PROSE = 500
"""Words that do so if an article's parts show: sections, a reference list, many paragraphs."""
SHORT_PROSE = 200
"""A letter or an editorial has at least so many words."""
MIN_SECTIONS = 2
MIN_PARAGRAPHS = 6
MIN_REFERENCES = 3
SECTION_PROSE = 120
"""A section of a structured abstract has fewer words than this, a section of an article more."""
LIST_LINKS = 5
"""With so many titles that are links, a page may be a list of other pages."""
LIST_PROSE = 80
"""Words of running text, at most, for each of these links in a list: a teaser each."""

_ABOUT_PATH = re.compile(
    r"/about(?:/|$)"
    r"|/(?:author|authors|instructions|information|submission|submissions)[-_/]?"
    r"(?:guidelines?|instructions?|information|authors|readers|librarians)?/?$"
    r"|/(?:for[-_]authors|author[-_]guidelines|guide[-_]for[-_]authors|editorial[-_](?:board|team|policies)"
    r"|(?:privacy|cookies?)(?:[-_]policy)?|contact(?:[-_]us)?|faqs?)(?:\.\w+)?/?$",
    re.IGNORECASE,
)
_HOME_PATH = re.compile(r"/(?:[a-z]{2}(?:[-_][a-z]{2})?/)?(?:(?:index|home|default)(?:\.\w{2,5})?/?)?", re.IGNORECASE)
_TITLE_PARTS = re.compile(r"\s+[|\-–—·»]\s+|\s*[|»]\s*")
_EDGES = " .:!|-–—"


class Scope(str, Enum):
    """What a page is to a reader who wants the full text of one work."""

    ARTICLE = "article"
    LANDING = "landing-page"
    """A page about the work: its abstract, a part of it, its record."""
    LIST = "list"
    """A page of many works: contents of an issue, results of a search."""
    ABOUT = "about"
    """A page about the journal or the site: rules, guidelines, policies."""
    HOME = "home-page"
    STUB = "stub"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """A scope and why."""

    scope: Scope
    reason: str


def judge(page: Page) -> IngestError | None:
    """None if the page is the article, else WrongScope or UnknownScope with the reason."""
    finding = scope_of(page)
    if finding.scope is Scope.ARTICLE:
        return None
    message = f"{mask(page.url)} {finding.reason}"
    return UnknownScope(message) if finding.scope is Scope.UNKNOWN else WrongScope(message)


def html_meta(page: Page, biblio: Biblio, *, sha1hex: str, obstacle: IngestError | None = None) -> HtmlMeta:
    """What is kept of a page. `sha1hex` is its body's digest, `obstacle` the outcome if it is an interstitial."""
    if page.text is None:
        return HtmlMeta(sha1hex, biblio=mask_texts(biblio.to_json()))
    scope = scope_of(page).scope.value if obstacle is None else obstacle.status
    return HtmlMeta(sha1hex, scope, page.text.words, mask_texts(biblio.to_json()))


def scope_of(page: Page) -> Finding:
    """What a page is; the reason reads as the rest of a sentence about it."""
    text = page.text
    assert text is not None, "a scope needs the whole page"
    named = [url for url in page.fulltext_urls if not same_page(url, page.url)]
    if named:
        return Finding(Scope.LANDING, f"is a landing page: it names {mask(named[0])} as its full text")
    if text.all_words < STUB_WORDS:
        return Finding(Scope.STUB, f"is a stub of {text.all_words} words")
    if page.fulltext_urls and text.has_abstract and text.prose < SHORT_PROSE:
        return Finding(Scope.LANDING, "names itself as the full text, but holds only the abstract")
    if page.fulltext_urls:
        return Finding(Scope.ARTICLE, "names itself as the full text")
    if _HOME_PATH.fullmatch(split(page.url).target.partition("?")[0]):
        return Finding(Scope.HOME, "is the home page of a site")
    return _by_subject(page, text) or _by_form(page, text)


def _by_subject(page: Page, text: PageText) -> Finding | None:
    """A page about something else than one work, or None."""
    if text.link_titles >= LIST_LINKS and text.prose < LIST_PROSE * text.link_titles and not text.sections:
        return Finding(Scope.LIST, f"is a list of {text.link_titles} linked titles")
    if text.has_citation or text.references > 2 * MIN_REFERENCES:
        return None
    names = [name.strip(_EDGES) for name in (*_TITLE_PARTS.split(text.title), text.first_heading)]
    about_title = pattern("page.about")
    about = next((name for name in names if about_title.fullmatch(name)), None)
    if about is not None:
        return Finding(Scope.ABOUT, f"is about the journal or the site: {about[:80]!r}")
    if _ABOUT_PATH.search(split(page.url).target.partition("?")[0]):
        return Finding(Scope.ABOUT, "is about the journal or the site, by its address")
    return None


def _by_form(page: Page, text: PageText) -> Finding:
    """By how much running text a page has of its own, and how it is divided."""
    size = f"{text.prose} words of running text in {text.paragraphs} paragraphs"
    if text.has_preview and text.prose < 2 * ARTICLE_PROSE:
        return Finding(Scope.LANDING, f"is a sample with {size}: the rest is for members or for money")
    if text.prose >= ARTICLE_PROSE:
        return Finding(Scope.ARTICLE, f"has {size}")
    if text.prose >= DIVIDED_PROSE and _is_divided(text):
        return Finding(Scope.ARTICLE, f"has {size}, sections, paragraphs or references")
    is_about_a_work = text.has_citation or text.has_abstract or _has_link_to_full_text(page)
    if text.prose >= SHORT_PROSE and _is_short_article(text, is_about_a_work=is_about_a_work):
        return Finding(Scope.ARTICLE, f"has {size}, and an article's parts")
    if is_about_a_work:
        return Finding(Scope.LANDING, f"is a landing page with {size}")
    if text.references >= MIN_REFERENCES and text.prose < SHORT_PROSE:
        return Finding(Scope.LANDING, f"has {text.references} references but only {size}")
    return Finding(Scope.UNKNOWN, f"has {size} and no sign of being an article or not")


def _is_divided(text: PageText) -> bool:
    return (
        len(text.sections) >= MIN_SECTIONS
        or text.paragraphs >= MIN_PARAGRAPHS
        or (text.references >= MIN_REFERENCES and text.paragraphs > 2)
        or (text.figures > 0 and text.paragraphs > 2)
    )


def _is_short_article(text: PageText, *, is_about_a_work: bool) -> bool:
    if len(text.sections) >= MIN_SECTIONS:
        # A structured abstract that nothing calls an abstract has such sections too.
        return (
            not is_about_a_work or text.prose >= SECTION_PROSE * len(text.sections) or text.references >= MIN_REFERENCES
        )
    return text.references > 0 and text.paragraphs >= 2 and not text.has_abstract


def _has_link_to_full_text(page: Page) -> bool:
    return any(not same_page(candidate.url, page.url) for candidate in page.candidates if is_href(candidate.url))
