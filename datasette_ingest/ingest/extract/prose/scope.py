"""Is this HTML page the article itself? A first, honest judgement with its reasons."""

from __future__ import annotations

import re

from ..errors import IngestError, UnknownScope, WrongScope
from ..urls import mask, same_page, split
from .page import Page

STUB_WORDS = 20
"""Fewer visible words than this are no page."""
ARTICLE_WORDS = 1200
"""As many words of its own make an article of any page; landing pages with an abstract stay below."""
STRUCTURED_WORDS = 200
"""A page with an article's sections needs no more than this: a letter is short too."""
MIN_SECTIONS = 2

_SECTION = re.compile(
    r"(?:[\divx]+[.)]?\s*)?(?:introduction|background|(?:materials? and )?methods?|methodology|results?(?: and discussion)?"
    r"|discussion|conclusions?|references|bibliography|acknowledge?ments?|literature cited"
    r"|einleitung|methoden?|ergebnisse|diskussion|literatur(?:verzeichnis)?|méthodes?|résultats|références"
    r"|introducción|métodos|resultados|discusión|conclusiones|referencias"
    r"|introdução|discussão|conclus(?:ão|ões)|referências)\W*",
    re.IGNORECASE,
)


def judge(page: Page) -> IngestError | None:
    """None if the page is the article, else WrongScope or UnknownScope with the reason.

    What a page says of itself comes first; then its length and its sections.
    """
    where = mask(page.url)
    text = page.text
    assert text is not None, "a scope needs the whole page"
    named = [url for url in page.fulltext_urls if not same_page(url, page.url)]
    if page.fulltext_urls and not named:
        return None if text.words >= STUB_WORDS else WrongScope(f"{where} has only {text.words} words of text")
    if named:
        return WrongScope(f"{where} is a landing page: it names {mask(named[0])} as its full text")
    if text.all_words < STUB_WORDS:
        return WrongScope(f"{where} is a stub of {text.all_words} words")
    if split(page.url).target == "/":
        return WrongScope(f"{where} is the home page of a site")
    sections = {heading for heading in text.headings if _SECTION.fullmatch(heading)}
    if len(sections) >= MIN_SECTIONS and text.words >= STRUCTURED_WORDS:
        return None
    if text.words >= ARTICLE_WORDS:
        return None
    if page.candidates or text.has_citation:
        return WrongScope(f"{where} is a landing page of {text.words} words")
    return UnknownScope(f"{where} has {text.words} words and no sign of being an article or not")
