"""Words and phrases of all languages, loaded from the files words/*.toml: one file a language, named by its ISO 639 code.

To add a language, add a file; `common.toml` holds what belongs to no language. A *word list* is a text, its words
separated by blanks. A *pattern* is a regular expression in lower case; `%name%` in it stands for the alternatives under
`[names]` of the same file, else of all files together. The tables of all files are joined to one, on first use.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent / "words"
COMMON = "common"
"""The file that is no language's."""
MAX_REST = 70
"""What may follow the opening words of a notice, in characters."""

_NAME = re.compile(r"%(\w+)%")


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file. Raises ValueError that names the file."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path.name}: {error}") from error


def any_of(alternatives: Iterable[str], *, before: str = "", after: str = "") -> re.Pattern[str]:
    """One pattern of all alternatives, upper and lower case alike, with a pattern `before` and `after` them.

    Raises ValueError that names the alternative that is no regular expression.
    """
    alternatives = tuple(alternatives)
    try:
        return re.compile(f"{before}(?:{'|'.join(alternatives) or '(?!)'}){after}", re.IGNORECASE)
    except re.error as error:
        wrong = next((alternative for alternative in alternatives if not _is_pattern(alternative)), alternatives)
        raise ValueError(f"not a regular expression: {wrong!r}: {error}") from error


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def _split(value: Any) -> Any:
    return value.split() if isinstance(value, str) else value


Words = Annotated[frozenset[str], BeforeValidator(_split)]
Patterns = tuple[str, ...]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LinkPhrases(_Table):
    """What links say, and what stands around them."""

    full_text: Words = frozenset()
    """One word that says "the whole text"."""
    full_text_pairs: tuple[Words, ...] = ()
    """Two words that say so together."""
    download: Words = frozenset()
    """Words for getting a file."""
    download_parts: Words = frozenset()
    """The same in scripts that put no blanks between words."""
    work: Words = frozenset()
    """Words for the work itself."""
    versions: Words = frozenset()
    """Which version of the work a file is."""
    neutral: Words = frozenset()
    """Words that may stand beside these on a link to the work itself."""
    not_the_work: Words = frozenset()
    """Words that say a file is something beside the work, or something to be paid for."""
    not_the_work_parts: Words = frozenset()
    """The same as parts of words, for scripts without blanks and languages with endings."""
    not_the_work_beside: Words = frozenset()
    """The same in a few words beside the link."""
    not_the_work_urls: Patterns = ()
    """The same as parts of a URL."""
    file_headings: Patterns = ()
    """Beginnings of headings above the work's files."""
    other_headings: Patterns = ()
    """Beginnings of headings above other works, and above other files."""
    prefilter: Words = frozenset()
    """Parts of words, one of which every link to a file has in its text or attributes."""

    @cached_property
    def harmless(self) -> frozenset[str]:
        """All words that a link to the work itself may consist of."""
        return frozenset().union(self.full_text, *self.full_text_pairs, self.download, self.work, self.neutral)

    @cached_property
    def file_heading(self) -> re.Pattern[str]:
        return any_of(self.file_headings, before=r"[\W\d]*")

    @cached_property
    def other_heading(self) -> re.Pattern[str]:
        return any_of(self.other_headings, before=r"[\W\d]*", after=r"(?!\w).*")

    @cached_property
    def not_the_work_url(self) -> re.Pattern[str]:
        return any_of(self.not_the_work_urls, before=r"(?:^|[/_.\-=?&%])", after=r"(?=[/_.\-=?&%]|$)")

    def says_full_text(self, words: frozenset[str]) -> bool:
        return not words.isdisjoint(self.full_text) or any(pair <= words for pair in self.full_text_pairs)


_NUMBER = r"(?:(?:[\divx]+(?:\.\d+)*|[a-h])\s*[.):、．]?\s*|第?[一二三四五六七八九十]+[章节節、．.]?\s*)?"


class PagePhrases(_Table):
    """Names of an article's parts, and of pages that are no article."""

    sections: Patterns = ()
    """Headings by which articles divide their text."""
    references: Patterns = ()
    """Headings above a list of other works."""
    abstract: Patterns = ()
    """Headings above an abstract."""
    keywords: Patterns = ()
    """Beginnings of a line of keywords."""
    preview: Patterns = ()
    """Labels that offer the rest of a text for money, or to members."""
    about: Patterns = ()
    """Titles of pages about a journal, a site or its rules: they are long, and no articles."""

    @cached_property
    def section_heading(self) -> re.Pattern[str]:
        return any_of(self.sections, before=rf"\W*{_NUMBER}", after=r"\W*")

    @cached_property
    def references_heading(self) -> re.Pattern[str]:
        return any_of(self.references, before=rf"\W*{_NUMBER}", after=r"\W*")

    @cached_property
    def abstract_heading(self) -> re.Pattern[str]:
        """The heading, perhaps with its language."""
        return any_of(self.abstract, before=r"\W*", after=r"(?:\W+[a-z]{2,12})?\W*")

    @cached_property
    def abstract_line(self) -> re.Pattern[str]:
        """The beginning of an abstract that says so itself."""
        return any_of(self.abstract, before=r"\W*", after=r"\s*[:：.。．\-–—\]】]")

    @cached_property
    def keywords_line(self) -> re.Pattern[str]:
        return any_of(self.keywords, before=r"\W*", after=r"\b")

    @cached_property
    def preview_label(self) -> re.Pattern[str]:
        return any_of(self.preview)

    @cached_property
    def about_title(self) -> re.Pattern[str]:
        return any_of(self.about)


class InterstitialPhrases(_Table):
    """What one kind of interstitial page says in its title, a heading or a first sentence.

    Some phrases count only as a whole ("Not found" is a notice, "Not found in nature: alkaloids of the moss" is a
    paper), others from their first words on.
    """

    whole: Patterns = ()
    opening: Patterns = ()
    text: Patterns = ()
    """The same within a sentence."""

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        return any_of(self.whole)

    @cached_property
    def _opening(self) -> re.Pattern[str]:
        return any_of(self.opening)

    @cached_property
    def _text(self) -> re.Pattern[str]:
        return any_of(self.text)

    def says(self, text: str) -> bool:
        """Whether a title, heading or sentence says this and nothing else, or says it first and little more.

        What follows a colon must say it again, for titles of works go on in this way.
        """
        if self._whole.fullmatch(text):
            return True
        match = self._opening.match(text)
        if match is None or len(text) - match.end() > MAX_REST:
            return False
        rest = text[match.end() :].lstrip()
        return len(rest) <= 1 or rest[0] not in ":?" or self.says(rest[1:].strip(" .!"))

    def is_in(self, text: str) -> bool:
        """Whether a sentence of the text says this."""
        return self._text.search(text) is not None


class Interstitials(_Table):
    """Phrases of pages that stand in place of the wanted one."""

    login: InterstitialPhrases = InterstitialPhrases()
    challenge: InterstitialPhrases = InterstitialPhrases()
    cookies: InterstitialPhrases = InterstitialPhrases()
    missing: InterstitialPhrases = InterstitialPhrases()
    forbidden: InterstitialPhrases = InterstitialPhrases()
    javascript: InterstitialPhrases = InterstitialPhrases()


class Markup(_Table):
    """Class names, ids and addresses of a page's elements."""

    at_the_work: Words = frozenset()
    """Parts of the page that hold the work's own files."""
    elsewhere: Words = frozenset()
    """Parts of the page that are about something else."""
    supplements: Words = frozenset()
    """Parts of the page that hold supplements."""
    work_links: Words = frozenset()
    """Links to the work's own file."""
    other_links: Words = frozenset()
    """Links to something beside the work."""
    challenge: Patterns = ()
    captcha: Patterns = ()
    federation: Patterns = ()

    @cached_property
    def challenge_mark(self) -> re.Pattern[str]:
        return any_of(self.challenge)

    @cached_property
    def captcha_mark(self) -> re.Pattern[str]:
        return any_of(self.captcha)

    @cached_property
    def federation_mark(self) -> re.Pattern[str]:
        return any_of(self.federation)


class PhraseFile(_Table):
    """One file of words/."""

    language: Words = frozenset()
    """How pages name the language, beside its code."""
    months: tuple[Words, ...] = ()
    """Twelve, or none."""
    placeholders: frozenset[str] = frozenset()
    """What templates leave where they had nothing to fill in."""
    names: Mapping[str, tuple[str, ...]] = {}
    links: LinkPhrases = LinkPhrases()
    page: PagePhrases = PagePhrases()
    interstitials: Interstitials = Interstitials()
    markup: Markup = Markup()


@dataclass(frozen=True)
class Phrases:
    """The tables of all files."""

    links: LinkPhrases
    page: PagePhrases
    interstitials: Interstitials
    markup: Markup
    placeholders: frozenset[str]
    months: Mapping[str, int]
    """Name of a month -> its number, from 1."""
    languages: Mapping[str, str]
    """Name of a language -> its ISO 639 code."""


@cache
def phrases() -> Phrases:
    """The tables of all files, joined. Raises ValueError that names the file and the table that is not as it should be."""
    files = phrase_files()
    tables = list(files.values())
    return Phrases(
        links=_joined([table.links for table in tables]),
        page=_joined([table.page for table in tables]),
        interstitials=_joined([table.interstitials for table in tables]),
        markup=_joined([table.markup for table in tables]),
        placeholders=frozenset().union(*(table.placeholders for table in tables)),
        months={name: number for table in tables for number, names in enumerate(table.months, 1) for name in names},
        languages={name: code for code, table in files.items() for name in table.language},
    )


def phrase_files(folder: Path = FOLDER) -> dict[str, PhraseFile]:
    """The files of a folder by their names without ending, with all names replaced. Raises ValueError."""
    given = {path.stem: _loaded(path) for path in sorted(folder.glob("*.toml"))}
    shared: dict[str, tuple[str, ...]] = {}
    for table in given.values():
        for name, alternatives in table.names.items():
            shared[name] = (*shared.get(name, ()), *alternatives)
    return {code: _expanded(table, {**shared, **table.names}, code) for code, table in given.items()}


def _loaded(path: Path) -> PhraseFile:
    try:
        table = PhraseFile.model_validate(read_toml(path))
    except ValidationError as error:
        raise ValueError(f"{path.name}: {error}") from error
    if len(table.months) not in (0, 12):
        raise ValueError(f"{path.name}: months: {len(table.months)} lists, not 12")
    return table


T = TypeVar("T", bound=_Table)


def _expanded(table: T, names: Mapping[str, Sequence[str]], code: str) -> T:
    """The table with the alternatives in place of every %name%."""

    def alternatives(match: re.Match[str]) -> str:
        if match[1] not in names:
            raise ValueError(f"{code}.toml: %{match[1]}% stands in a pattern and not under [names]")
        return f"(?:{'|'.join(map(expand, names[match[1]]))})"

    def expand(pattern: str) -> str:
        return _NAME.sub(alternatives, pattern)

    changed: dict[str, Any] = {}
    for name in type(table).model_fields:
        value = getattr(table, name)
        if isinstance(value, _Table):
            changed[name] = _expanded(value, names, code)
        elif isinstance(value, tuple) and value and isinstance(value[0], str):
            changed[name] = tuple(map(expand, value))
    return table.model_copy(update=changed)


def _joined(tables: Sequence[T]) -> T:
    """One table with the words and patterns of all."""
    values: dict[str, Any] = {}
    for name in type(tables[0]).model_fields:
        parts = [getattr(table, name) for table in tables]
        if isinstance(parts[0], _Table):
            values[name] = _joined(parts)
        elif isinstance(parts[0], frozenset):
            values[name] = frozenset().union(*parts)
        else:
            values[name] = tuple(dict.fromkeys(item for part in parts for item in part))
    return type(tables[0]).model_construct(**values)
