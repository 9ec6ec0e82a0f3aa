"""Words and phrases of all languages, loaded on first use from the files words/*.toml, one for each language.

A file is named by the language's ISO 639 code; `common.toml` holds what belongs to no language. To add a language, add a
file: `en.toml` says what each table is for. A table is a list of texts, or one text of words separated by blanks. A
pattern is a regular expression; `%name%` in it stands for the alternatives under [names] of the same file, or if it has
none of that name, of all files.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent / "words"

_INTERSTITIALS = ("login", "challenge", "cookies", "missing", "forbidden", "javascript", "parked")
_NUMBERED = r"\W*(?:(?:[\divx]+(?:\.\d+)*|[a-h])\s*[.):、．]?\s*|第?[一二三四五六七八九十]+[章节節、．.]?\s*)?"
PATTERNS = {
    "links.file_headings": (r"[\W\d]*", ""),
    "links.other_headings": (r"[\W\d]*", r"(?!\w).*"),
    "links.not_the_work_urls": (r"(?:^|[/_.\-=?&%])", r"(?=[/_.\-=?&%]|$)"),
    "page.sections": (_NUMBERED, r"\W*"),
    "page.references": (_NUMBERED, r"\W*"),
    "page.abstract": (r"\W*", r"(?:\W+[a-z]{2,12})?\W*"),
    "page.keywords": (r"\W*", r"\b"),
    "page.preview": ("", ""),
    "page.about": ("", ""),
    **{f"interstitials.{kind}.{place}": ("", "") for kind in _INTERSTITIALS for place in ("whole", "opening", "text")},
    **{f"markup.{kind}": ("", "") for kind in ("challenge", "captcha", "federation", "parking")},
}
"""Tables of patterns, and what stands before and after the alternatives of each."""
WORDS = frozenset(
    """language months placeholders
    links.full_text links.full_text_pairs links.download links.download_parts links.work links.versions links.neutral
    links.not_the_work links.not_the_work_parts links.not_the_work_beside links.prefilter
    markup.at_the_work markup.elsewhere markup.supplements markup.work_links markup.other_links""".split()  # noqa: SIM905
)
"""Tables of words and other texts."""

_NAME = re.compile(r"%(\w+)%")

File = Mapping[str, tuple[str, ...]]
"""Table -> its texts. A table `x` of the section `y` is called `y.x`."""


@cache
def words(table: str) -> frozenset[str]:
    """The words, or texts, of a table in all languages."""
    return frozenset(texts(table))


@cache
def pattern(table: str) -> re.Pattern[str]:
    """One pattern of all alternatives of a table, upper and lower case alike."""
    before, after = PATTERNS[table]
    return any_of(texts(table), before=before, after=after)


@cache
def months() -> dict[str, int]:
    """Name of a month -> its number, from 1."""
    return {
        name: number
        for file in _files().values()
        for number, names in enumerate(file.get("months", ()), 1)
        for name in names.split()
    }


@cache
def languages() -> dict[str, str]:
    """Name of a language -> its ISO 639 code."""
    return {name: code for code, file in _files().items() for name in file.get("language", ())}


def texts(table: str) -> tuple[str, ...]:
    """The texts of a table in all languages, each once."""
    if table not in PATTERNS and table not in WORDS:
        raise KeyError(table)
    return tuple(dict.fromkeys(text for file in _files().values() for text in file.get(table, ())))


def any_of(alternatives: Iterable[str], *, before: str = "", after: str = "") -> re.Pattern[str]:
    """One pattern of all alternatives, upper and lower case alike. Raises ValueError that names a wrong one."""
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


@cache
def _files() -> dict[str, File]:
    return read_files(FOLDER)


def read_files(folder: Path) -> dict[str, File]:
    """The files of a folder by language. Raises ValueError that names the file and the table that is wrong."""
    given = {path.stem: _read_file(path) for path in sorted(folder.glob("*.toml"))}
    shared: dict[str, tuple[str, ...]] = {}
    for file in given.values():
        for table, alternatives in file.items():
            if table.startswith("names."):
                shared[table] = (*shared.get(table, ()), *alternatives)
    return {code: _expanded(file, {**shared, **file}, code) for code, file in given.items()}


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file. Raises ValueError that names the file."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path.name}: {error}") from error


def _read_file(path: Path) -> File:
    file: dict[str, tuple[str, ...]] = {}
    for table, value in _tables(read_toml(path)):
        if table not in PATTERNS and table not in WORDS and not table.startswith("names."):
            raise ValueError(f"{path.name}: unknown table {table}")
        found = value.split() if isinstance(value, str) else value
        if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
            raise ValueError(f"{path.name}: {table} must be a list of texts, or one text of words")
        file[table] = tuple(found)
    if len(file.get("months", ())) not in (0, 12):
        raise ValueError(f"{path.name}: months has {len(file['months'])} texts, not 12")
    return file


def _tables(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in section.items():
        if isinstance(value, Mapping):
            yield from _tables(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _expanded(file: File, names: File, code: str) -> File:
    """The file with alternatives for every %name% in its patterns."""

    def alternatives(match: re.Match[str]) -> str:
        found = names.get(f"names.{match[1]}")
        if found is None:
            raise ValueError(f"{code}.toml: %{match[1]}% stands in a pattern and not under [names]")
        return f"(?:{'|'.join(_NAME.sub(alternatives, text) for text in found)})"

    return {
        table: tuple(_NAME.sub(alternatives, text) for text in texts) if table in PATTERNS else texts
        for table, texts in file.items()
        if not table.startswith("names.")
    }
