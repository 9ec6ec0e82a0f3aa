"""What a person types into the search box, as an FTS5 query that is always valid. Pure.

https://www.sqlite.org/fts5.html#full_text_query_syntax
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

MOST_CHARACTERS = 1_000
"""Of a query."""
MOST_NESTED = 8
"""Parentheses within parentheses: FTS5's parser has a stack of 100 places."""
_OPERATORS = ("AND", "OR", "NOT")
_QUOTES = str.maketrans({"\0": " ", "\u201c": '"', "\u201d": '"', "\u201e": '"'})
"""Quotation marks of word processors are quotation marks. FTS5 reads a query up to its first NUL."""
_PART = re.compile(r'"(?P<phrase>(?:[^"]|"")*)"?(?P<open>\*?)|(?P<mark>[()])|(?P<word>[^\s"()]+)')


@dataclass(frozen=True)
class Query:
    """`match`: the FTS5 query; '' if no word was typed. `has_operators`: whether AND, OR, NOT or parentheses count; they
    are words where they do not make a valid query."""

    match: str
    has_operators: bool = False


@dataclass(frozen=True)
class _Token:
    """`text`: a term as FTS5 takes it, an operator, or a parenthesis. `word`: the term if it is to be a word."""

    text: str
    word: str | None


class _Invalid(Exception):
    """The operators do not stand where they can."""


def parse(typed: str) -> Query:
    """The query for what was typed.

    Words must all occur. `"…"` is a phrase, `word*` begins a word, AND, OR, NOT and parentheses combine. Whatever else
    stands in a word only separates its parts: `non-small` is found where `non` is followed by `small`.
    """
    tokens = list(_tokens(typed.encode("utf-8", "replace").decode("utf-8").translate(_QUOTES)))
    if any(token.word is None or token.text in _OPERATORS for token in tokens):
        try:
            return Query(_Reader(tokens).whole(), has_operators=True)
        except _Invalid:
            pass
    return Query(" ".join(token.word for token in tokens if token.word is not None))


def _tokens(typed: str) -> Iterator[_Token]:
    for part in _PART.finditer(typed):
        word = part["word"]
        if part["mark"]:
            yield _Token(part["mark"], None)
        elif word in _OPERATORS:
            yield _Token(word, _term(word))
        else:
            words = part["phrase"].replace('""', '"') if word is None else word.rstrip("*")
            is_open = bool(part["open"]) if word is None else word.endswith("*")
            if any(map(str.isalnum, words)):  # other characters are no part of any word of the index
                yield _Token(term := _term(words, is_open), term)


def _term(words: str, is_open: bool = False) -> str:
    return '"' + words.replace('"', '""') + '"' + "*" * is_open


class _Reader:
    """Reads tokens by FTS5's grammar: side by side binds closest, then NOT, AND, OR."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def whole(self) -> str:
        """:raises _Invalid:"""
        found = self._or()
        if self._next() is not None:
            raise _Invalid
        return found

    def _next(self) -> str | None:
        return self._tokens[self._at].text if self._at < len(self._tokens) else None

    def _or(self) -> str:
        return self._joined("OR", self._and)

    def _and(self) -> str:
        return self._joined("AND", self._not)

    def _not(self) -> str:
        return self._joined("NOT", self._side_by_side)

    def _joined(self, operator: str, read: Callable[[], str]) -> str:
        parts = [read()]
        while self._next() == operator:
            self._at += 1
            parts.append(read())
        return f" {operator} ".join(parts)

    def _side_by_side(self) -> str:
        units = []
        while (text := self._next()) not in (None, ")", *_OPERATORS):
            self._at += 1
            units.append(self._nested() if text == "(" else str(text))
        if not units:
            raise _Invalid
        if any(unit.startswith("(") for unit in units[1:]) or (units[0].startswith("(") and len(units) > 1):
            return f"({' AND '.join(units)})"  # FTS5 takes no parentheses side by side
        return " ".join(units)

    def _nested(self) -> str:
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise _Invalid
        inner = self._or()
        if self._next() != ")":
            raise _Invalid
        self._at += 1
        self._depth -= 1
        return f"({inner})"
