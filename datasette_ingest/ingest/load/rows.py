"""What every reader of a format is given, and how it makes rows of ingest_request from what it read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import msgspec

from ..json_object import json_text
from ..model import TYPE_ALIASES
from ..store.requests import RequestRow
from ..types import INGEST_TYPES
from .errors import Refused


@dataclass(frozen=True)
class Given:
    """What the person gave for all lines.

    :param source: where lines come from that name no source
    :param ingest_type: what is wanted where a line names no type
    :param only_type: take only requests of this type
    :param created: the time of the load, ISO 8601
    """

    source: str | None = None
    ingest_type: str = "pdf"
    only_type: str | None = None
    actor: str = "unknown"
    created: str = ""


T = TypeVar("T")


class Reader(Protocol):
    """Reads a format of one record a line."""

    def line(self, line: bytes) -> Sequence[RequestRow]:
        """The requests of a line, best first; none where it names no URL or is not wanted. Raises Refused."""

    def all_lines(self, lines: Sequence[bytes]) -> Sequence[RequestRow]:
        """The requests of many lines: the same as of each, and faster. Raises ReadEach where a line is blank or
        refused."""


class ReadEach(Exception):
    """Lines must be read one by one, to say what is wrong with which."""


def required(value: str | None, name: str) -> str:
    """The value of a part of the key. Raises Refused for a blank one, and for one with a NUL character, at which SQL
    functions stop reading."""
    if value is None or not value or value.isspace():
        raise Refused(f"{name} is missing or blank")
    if "\0" in value:
        raise Refused(f"{name} contains a NUL character")
    return value


def known_type(name: str) -> str:
    """The ingest type of that name. Raises Refused for one that is not known."""
    kind = TYPE_ALIASES.get(name, name)
    if kind not in INGEST_TYPES:
        raise Refused(f"ingest_type is {name[:40]!r}; known are {', '.join(INGEST_TYPES)}")
    return kind


def decoded(line: bytes, decoder: msgspec.json.Decoder[T], kind: type[T]) -> T:
    """A line of JSON as the type that the decoder has. Raises Refused."""
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        return converted(parsed(line), kind)


def decoded_all(lines: Sequence[bytes], decoder: msgspec.json.Decoder[T]) -> list[T]:
    """Each line as the type that the decoder has. Raises ReadEach."""
    try:
        return list(map(decoder.decode, lines))
    except (msgspec.MsgspecError, RecursionError):
        raise ReadEach from None


def parsed(line: bytes) -> Any:
    """A line of JSON by the standard library, which also takes what msgspec refuses: half of a surrogate pair, NaN. Its
    messages are better. Raises Refused."""
    try:
        return json.loads(line)
    except RecursionError:
        raise Refused("not JSON that can be read: nested too deeply") from None
    except ValueError as problem:
        raise Refused(f"not JSON: {problem}"[:200]) from None


def converted(value: Any, kind: type[T]) -> T:
    """A JSON value as this type. Raises Refused, which names the field that does not fit."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise Refused(str(problem)[:200]) from None


def unicode_row(row: RequestRow) -> RequestRow:
    """The row, if SQLite can hold its texts. Raises Refused for half of a surrogate pair."""
    try:
        for text in row:
            if text is not None:
                text.encode("utf-8")
    except UnicodeEncodeError:
        raise Refused(_NOT_UNICODE) from None
    return row


def row_json(value: Any) -> str:
    """A value as the JSON that a row keeps. Raises Refused for half of a surrogate pair."""
    try:
        return json_text(value)
    except UnicodeEncodeError:
        raise Refused(_NOT_UNICODE) from None


_NOT_UNICODE = "a text is not Unicode: it contains half of a surrogate pair"


def text_of(cell: Any) -> str | None:
    """A cell, a JSON value or one of SQLite's, as the text that SQLite casts it to. Raises Refused for bytes that are no
    text."""
    match cell:
        case None | str():
            return cell
        case int():
            return str(cell)
        case float():
            return str(_SQLITE.execute("select cast(? as text)", [cell]).fetchone()[0])
    try:
        return bytes(cell).decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("a value is bytes that are not UTF-8") from None


_SQLITE = sqlite3.connect(":memory:", check_same_thread=False)
"""Casts numbers: it writes some as Python does not."""
