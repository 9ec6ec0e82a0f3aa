"""Is this HTML page the article itself, a page about it, or neither? Judged by what it says of itself, then by its form."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ...errors import IngestError, UnknownScope, WrongScope
from ...facts import HtmlMeta
from ...urls import is_href, mask, same_page, split
from ..biblio import Biblio
from ..page import Page
from .text import PageText

STUB_WORDS = 20
"""Fewer visible words than this are no page."""
ARTICLE_PROSE = 1000
"""So much running text of its own, abstract and references apart, makes an article of any page."""
DIVIDED_PROSE = 500
"""So much does where an article's parts show: sections, a reference list, many paragraphs."""
SHORT_PROSE = 200
"""A letter or an editorial has at least this."""
MIN_SECTIONS = 2
MIN_PARAGRAPHS = 6
MIN_REFERENCES = 3
SECTION_PROSE = 120
"""A section of a structured abstract has fewer words than this, one of an article more."""
LIST_LINKS = 5
"""So many titles that are links, and a page may be a list of other pages."""
LIST_PROSE = 80
"""Running text for each of these links, at most, in a list: a teaser each."""

# Pages about a journal, a site or its rules: they are long, and no articles.
_ABOUT_NOTICE = re.compile(
    r"(?:information |instructions?|guidelines?|guide|notes|advice) (?:for|to) (?:the )?(?:authors?|contributors?|reviewers?|editors?|librarians|readers)"
    r"|(?:author|submission|manuscript|reviewer|editorial|style|formatting|publication)s?'? (?:guidelines?|instructions?|polic(?:y|ies)|process|preparation checklist|guide|information)"
    r"|submissions?|submit (?:a|your) (?:manuscript|paper|article).{0,20}"
    r"|about(?: (?:us|the journal|this journal|the publisher|this site))?|aims? (?:and|&) scope"
    r"|focus (?:and|&) scope|editorial (?:board|team|policies)|(?:publication|publishing) ethics.{0,40}"
    r"|(?:privacy|cookie|open access|copyright|archiving) (?:policy|statement|notice)"
    r"|terms (?:of (?:use|service)|and conditions)|frequently asked questions|faqs?|contact(?: us)?|help|imprint"
    r"|peer review (?:process|policy)|call for papers.{0,60}"
    r"|(?:hinweise|richtlinien|informationen) für (?:die )?autor(?:en|innen).{0,30}"
    r"|autor(?:en)?(?:hinweise|richtlinien)|über (?:die zeitschrift|uns)|impressum|datenschutz(?:erklärung)?"
    r"|(?:recommandations|instructions|consignes|directives|informations?) aux auteurs?.{0,30}"
    r"|(?:à propos|politique éditoriale|mentions légales).{0,40}"
    r"|(?:directrices|instrucciones|normas|gu[ií]a|informaci[óo]n) (?:de publicaci[óo]n )?para (?:los |las )?autor(?:es|as).{0,30}"
    r"|(?:normas de publicaci[óo]n|pol[ií]tica editorial|acerca de|sobre la revista|env[ií]os).{0,40}"
    r"|(?:diretrizes|instru[çc][õo]es|normas|informa[çc][õo]es) (?:para|aos) (?:os )?autores.{0,30}"
    r"|(?:pol[ií]ticas? editoria(?:l|is)|sobre a revista|submiss[õo]es).{0,30}"
    r"|(?:norme|linee guida|istruzioni) (?:per|redazionali).{0,30}"
    r"|(?:правила|требования|руководство|информация|инструкции) для авторов.{0,30}"
    r"|(?:о журнале|редакционная (?:политика|коллегия)|публикационная этика).{0,30}"
    r"|yaz(?:ar|ım) (?:kuralları|rehberi|bilgileri)"
    r"|(?:pedoman|petunjuk|panduan) (?:penulis|untuk penulis|penulisan).{0,30}"
    r"|(?:作者|投稿)(?:须知|指南|规定|說明|要求)|投稿(?:规定|規定|要領|案内)|执筆要領|執筆要領|투고 ?규정|تعليمات (?:للمؤلفين|النشر).{0,20}|قواعد النشر",
    re.IGNORECASE,
)
_ABOUT_PATH = re.compile(
    r"/about(?:/|$)"
    r"|/(?:author|authors|instructions|information|submission|submissions)[-_/]?(?:guidelines?|instructions?|information|authors|readers|librarians)?/?$"
    r"|/(?:for[-_]authors|author[-_]guidelines|guide[-_]for[-_]authors|editorial[-_](?:board|team|policies)|(?:privacy|cookies?)(?:[-_]policy)?|contact(?:[-_]us)?|faqs?)(?:\.\w+)?/?$",
    re.IGNORECASE,
)
_HOME_PATH = re.compile(r"/(?:[a-z]{2}(?:[-_][a-z]{2})?/)?(?:(?:index|home|default)(?:\.\w{2,5})?/?)?", re.IGNORECASE)
_TITLE_PARTS = re.compile(r"\s+[|\-–—·»]\s+|\s*[|»]\s*")
_EDGES = " .:!|-–—"


class Scope(str, Enum):
    """What a page is, seen from somebody who wants the full text of one work."""

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
    """What is kept of a page. `sha1hex` is its body's digest, `obstacle` what `walls.wall` found there, if anything."""
    if page.text is None:
        return HtmlMeta(sha1hex, biblio=_masked(biblio.to_json()))
    scope = scope_of(page).scope.value if obstacle is None else obstacle.status
    return HtmlMeta(sha1hex, scope, page.text.words, _masked(biblio.to_json()))


def _masked(value: Any) -> Any:
    """JSON without anybody's password in its texts."""
    if isinstance(value, dict):
        return {key: _masked(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_masked(inner) for inner in value]
    return mask(value) if isinstance(value, str) else value


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
    about = next((name for name in names if _ABOUT_NOTICE.fullmatch(name)), None)
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
    is_about_a_work = text.has_citation or text.has_abstract or _leads_on(page)
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


def _leads_on(page: Page) -> bool:
    return any(not same_page(candidate.url, page.url) for candidate in page.candidates if is_href(candidate.url))
