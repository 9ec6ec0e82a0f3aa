"""Mask users and passwords of URLs in texts that people read: messages, logs, pages, stored results.

A URL's user and password are what a browser takes for them (https://url.spec.whatwg.org/#concept-basic-url-parser). What
looks like a URL and does not parse loses all up to its last `@`: the character that broke it may be in the password.
`http://user:12/34@host/` parses, as a path of the host `user`, and stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any
from urllib.parse import unquote

import ada_url

_AT = re.compile(r"@|%(?:25){0,3}40")
_TOKEN = re.compile(r"\S+")

_ENCODED = r"%(?:25){0,3}"
_SLASHES = rf"(?::[/\\]{{2,}}|(?::|{_ENCODED}3a)(?:{_ENCODED}(?:2f|5c)){{2,}})"
_START = re.compile(
    rf"(?P<special>(?<![a-z0-9+.\-])(?:https?|ftp|wss?)(?:{_SLASHES}|:[/\\]*(?![\s\"'{{\[])|{_ENCODED}3a)"
    rf"|(?<![^\s\"'(\[{{<>=,;|])(?:[/\\]{{2,}}|(?:{_ENCODED}(?:2f|5c)){{2,}}))|{_SLASHES}",
    re.IGNORECASE,
)
"""What stands before a user: a scheme that browsers read with any number of slashes, `//` alone, or `://`."""

_CLOSING = {'"': '"', "'": "'", "`": "`", ">": "<", ")": "(", "]": "[", "}": "{", "<": "", "|": ""}
"""What ends a URL in a text, and what must have been opened before it."""
_QUOTE = re.compile("[" + re.escape("".join(_CLOSING)) + "]")
_OPENED_WITHIN = 200
"""How far before a URL its quotation mark or bracket may have been opened, in characters."""
_MOST_QUOTES = 8
_GAPS = 2
"""Blanks that a user and password may hold in a text."""

_NOT_USERS = (
    "mailto|e-?mails?|mail|contacts?|kontakt|contacto|courriel|correo|correspondence|from|to|cc|bcc|by|authors?|reply-to"
    "|acct|xmpp|jabber|sips?|im|pres|news|mid|cid|ssh|doi|hdl|urn|info|pmid|pmcid|arxiv|isbn|issn|ark|swh|tag|data|file"
    "|javascript|about|blob|pkg|npm|jsr|docker|oci|sha256|sha512"
)
"""What stands before a colon and is no user: names of e-mail addresses and identifiers."""
_BARE = re.compile(
    rf"(?<![^\s\"'(\[{{<=,;|])(?!(?:{_NOT_USERS}):|[a-z]:[/\\])"
    r"(?P<user>[^\s:/\\?#@\"'`()\[\]{}<>=,;|&]+):(?!//|[\"'{\[])[^\s@]+@(?:[^\s@/?#,;\"'<>()]*@)*",
    re.IGNORECASE,
)
"""`user:password@` without a scheme."""
_HOST = re.compile(r"(?!sha\d+:)(?:[\w.\-]+|\[[0-9a-f:.]+\])(?P<more>:\d|/)?", re.IGNORECASE)


def has_at_sign(text: str) -> bool:
    """Whether the text has an `@`, percent-encoded or not: without one there is nothing to mask."""
    return _AT.search(text) is not None


def mask(text: str) -> str:
    """The text with `***` for user and password of every URL in it."""
    return _without(text, _hidden(text, _TOKEN.finditer(text), is_one=False)) if _AT.search(text) else text


def mask_texts(value: Any) -> Any:
    """A JSON value with every text in it masked."""
    if isinstance(value, dict):
        return {key: mask_texts(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [mask_texts(inner) for inner in value]
    return mask(value) if isinstance(value, str) else value


def mask_url(text: str) -> str:
    """As `mask`, for a text that is meant as one URL: blanks, quotation marks and line breaks are parts of it."""
    whole = re.compile(r"(?s).+").finditer(text)
    return _without(text, _hidden(text, whole, is_one=True)) if _AT.search(text) else text


def _without(text: str, hidden: Iterator[tuple[int, int]]) -> str:
    pieces, done = [], 0
    for start, end in hidden:
        if start >= done and end > start:
            pieces += [text[done:start], "***"]
            done = end
    return "".join([*pieces, text[done:]])


def _hidden(text: str, tokens: Iterator[re.Match[str]], *, is_one: bool) -> Iterator[tuple[int, int]]:
    """Where users and passwords stand, from left to right."""
    opened, gaps = None, 0
    for token in tokens:
        last = next(reversed([*_AT.finditer(text, *token.span())]), None)
        if opened is not None and last is not None:
            yield opened, last.start()
            opened = None
            continue
        opened, gaps = (None, 0) if gaps >= _GAPS else (opened, gaps + 1)
        if last is not None:
            yield from _hidden_in_token(text, token, last, is_one=is_one)
        elif (found := _open_authority(text, token)) is not None:
            opened, gaps = found, 0


def _hidden_in_token(
    text: str, token: re.Match[str], last: re.Match[str], *, is_one: bool
) -> Iterator[tuple[int, int]]:
    """As `_hidden`, between two blanks. Each character is looked at a fixed number of times.

    :param last: the last `@` of the token
    """
    position, end = token.span()
    is_inside = text[position] in "/\\.?#"  # of a URL: what follows is its path
    while position <= last.start():
        start = _START.search(text, position, last.start() + 1)
        yield from _hidden_bare(text, position, start.start() if start else last.end(), is_inside=is_inside)
        if start is None:
            return
        begin = start.end()
        ends, at_sign = _marks(_depth(start[0]), start["special"] is not None)
        mark = ends.search(text, begin, end)
        stop = mark.start() if mark else end
        quote = None if is_one else _closing_quote(text, start, stop)
        stop = stop if quote is None else quote
        at = next(reversed([*at_sign.finditer(text, begin, stop)]), None)
        if at is not None and (_is_authority(text[at.end() : stop], start) if is_one else at.end() < stop):
            yield begin, at.start()
            position, is_inside = at.end(), True
        elif quote is not None:
            position, is_inside = quote, False
        elif _is_authority(text[begin:stop], start):
            position, is_inside = stop, True
        else:
            yield begin, last.start()
            return


def _hidden_bare(text: str, start: int, end: int, *, is_inside: bool) -> Iterator[tuple[int, int]]:
    for match in _BARE.finditer(text, start, end):
        host = _HOST.match(text, match.end())
        if host is None or (is_inside and text[match.start() - 1] not in "\"'<"):
            continue
        if match["user"].isascii() or host["more"]:
            yield match.start(), match.end() - 1


def _open_authority(text: str, token: re.Match[str]) -> int | None:
    """Where a user begins whose password may go on after the blank; None where the token ends as URLs do."""
    starts = [*_START.finditer(text, *token.span())]
    if not starts:
        return None
    start = starts[-1]
    begin, end = start.end(), token.end()
    ends, _ = _marks(_depth(start[0]), start["special"] is not None)
    is_open = begin < end and not ends.search(text, begin, end) and not _is_authority(text[begin:end], start)
    return begin if is_open and not _QUOTE.search(text, begin, end) else None


def _closing_quote(text: str, start: re.Match[str], end: int) -> int | None:
    """Where a quotation mark or bracket ends the URL that began at `start`; None if all up to `end` belongs to it."""
    before = text[max(0, start.start() - _OPENED_WITHIN) : start.start()]
    for quote in islice(_QUOTE.finditer(text, start.end(), end), _MOST_QUOTES):
        if _CLOSING[quote[0]] in before and _is_authority(text[start.end() : quote.start()], start):
            return quote.start()
    return None


def _is_authority(text: str, start: re.Match[str]) -> bool:
    """Whether this can stand between the `//` and the path of a URL."""
    host = text
    for _ in range(_depth(start[0])):
        host = unquote(host)
    try:
        return not host.endswith(":") and bool(
            ada_url.URL(("http://" if start["special"] is not None else "x://") + host).host
        )
    except (ValueError, UnicodeError):
        return False


def _depth(start: str) -> int:
    """How often a URL is percent-encoded, from its first characters: `http%3A` once, `http%253A` twice."""
    encoded = re.search(r"%((?:25)*)", start)
    return 0 if encoded is None else 1 + len(encoded[1]) // 2


@cache
def _marks(depth: int, is_special: bool) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """(What ends the host of a URL that is percent-encoded `depth` times, its `@`)."""
    percent = "%" + "25" * (depth - 1)
    plain = r"[/\\?#]" if is_special else "[/?#]"
    if depth == 0:
        return re.compile(plain), re.compile("@")
    return re.compile(rf"{plain}|&|{percent}(?:2f|5c|3f|23)", re.IGNORECASE), re.compile(f"@|{percent}40")
