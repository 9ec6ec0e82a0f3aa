"""The messages of a fleet: requests, results and dead letters, each with its form in a topic.

A value is the JSON of INTERFACES: a request as `IngestRequest`, a result as `IngestResult`, with `schema_version` beside
its fields. What only the delivery needs is in headers, so that any program can read and write the values.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pydantic

from ..facts import FullText
from ..json_object import json_text
from ..load.errors import Refused
from ..load.jsonl import request_row
from ..load.rows import Given, decoded
from ..model import IngestRequest, IngestResult
from .record import Message, Record
from .routing import host_of, result_key
from .topics import MAX_REQUEST_BYTES, MAX_RESULT_BYTES, MIB

SCHEMA_VERSION = 1
VERSION_FIELD = "schema_version"
GIVEN = Given(source="kafka")
"""Where requests come from that do not say so."""
EXCERPT_BYTES = 64 * 1024
"""How much of a message its dead letter holds."""

PACKED = "zlib"
"""Under this name the text of a file is sent that has no room otherwise: compressed, in base64."""
MAX_TEXT_BYTES = 64 * MIB
"""Longest text that is unpacked: more than any that a file is read into."""

_DECODER = msgspec.json.Decoder(dict[str, Any])


class Unreadable(Exception):
    """A message that cannot be read: the sentence says why."""


@dataclass(frozen=True)
class Delivery:
    """What workers know of a request beside what is asked: its headers."""

    ticket: str | None = None
    """Of the reservation that waits for the result, which brings it back."""
    back_offs: int = 0
    """How often it was put off because a host asked for it."""
    failures: int = 0
    """How often answering it has failed by a fault of ours."""
    not_before: float | None = None
    """It waits until then. Seconds since 1970."""
    host: str | None = None
    """The host that is asked next, where that is not the URL's: it has redirected."""
    memory: Mapping[str, tuple[Any, float]] = field(default_factory=dict)
    """What earlier tries have left for the next: key -> (value, until when in seconds since 1970)."""

    def headers(self) -> dict[str, bytes]:
        """Those that differ from the default, each as JSON."""
        default = Delivery()
        values = {name: getattr(self, name) for name in _HEADERS}
        changed = {name: value for name, value in values.items() if value != getattr(default, name)}
        return {f"ingest-{name.replace('_', '-')}": json.dumps(value).encode() for name, value in changed.items()}

    @classmethod
    def read(cls, headers: Mapping[str, bytes]) -> Delivery:
        """The delivery of headers. Headers of other programs are ignored. Raises Unreadable."""
        found = {name: headers.get(f"ingest-{name.replace('_', '-')}") for name in _HEADERS}
        try:
            given = {name: json.loads(value) for name, value in found.items() if value is not None}
            read: Delivery = _DELIVERY.validate_python(given)
        except (ValueError, RecursionError):
            raise Unreadable("a header that begins with ingest- cannot be read") from None
        return read


_HEADERS = tuple(Delivery.__dataclass_fields__)
_DELIVERY = pydantic.TypeAdapter(Delivery)


@dataclass(frozen=True)
class RequestMessage:
    """A request, and how far it has come."""

    request: IngestRequest
    delivery: Delivery = Delivery()

    def host(self, doi_resolver: str) -> str:
        """The host that is asked next."""
        return self.delivery.host or host_of(self.request.base_url, doi_resolver)

    def encode(self, doi_resolver: str) -> Message:
        return Message(self.host(doi_resolver).encode(), _value(self.request.to_json()), self.delivery.headers())

    @classmethod
    def decode(cls, record: Record) -> RequestMessage:
        """:raises Unreadable: with the reason"""
        if record.key is None:
            raise Unreadable("the message has no key: requests are keyed by the host of their URL")
        document = _document(record, MAX_REQUEST_BYTES)
        named = document
        if document.keys().isdisjoint(("source_id", "link_source_id")):  # as where results are read
            named = {**document, "source_id": document.get("base_url")}
        try:
            request_row(named, GIVEN)  # refuses what no table could hold
            request = IngestRequest.from_json({"ingest_type": GIVEN.ingest_type, **document})
        except Refused as refused:
            raise Unreadable(str(refused)) from None
        except pydantic.ValidationError as problem:
            raise Unreadable(_first(problem)) from None
        return cls(request, Delivery.read(record.headers))


@dataclass(frozen=True)
class ResultMessage:
    """A result, when it came, and the ticket of the reservation that waits for it."""

    result: IngestResult
    ticket: str | None = None

    def encode(self) -> Message:
        """`updated` of the result is set: the newest of two results wins."""
        assert self.result.updated is not None
        key = result_key(self.result.request.base_url)
        value = _value(self.result.to_json())
        for name, forms in self._parts().items():
            room = MAX_RESULT_BYTES - len(value) - len(name) - 5
            part = next((form for each in forms if len(form := each()) <= room), None)
            if part is not None:
                value = b'%s, "%s": %s}' % (value[:-1], name.encode(), part)
        return Message(key, value, Delivery(ticket=self.ticket).headers())

    def _parts(self) -> dict[str, Sequence[Callable[[], bytes]]]:
        """What is read from the file and is no part of a result's JSON elsewhere: its words, and the picture of its first
        page in base64. Of the forms of each the first is sent for which the message has room."""
        text, picture = self.result.fulltext, self.result.thumbnail
        parts: dict[str, Sequence[Callable[[], bytes]]] = {}
        if text is not None:
            parts["fulltext"] = (lambda: json_text(text.to_json()).encode(), lambda: _packed(text))
        if picture is not None:
            named = {name: getattr(picture, name) for name in ("sha1hex", "mimetype", "width", "height")}
            parts["thumbnail"] = (lambda: json_text({**named, "content": _base64(picture.content)}).encode(),)
        return parts

    @classmethod
    def decode(cls, record: Record) -> tuple[dict[str, Any], str | None]:
        """(the JSON of the result, its ticket), for `load.results`.

        :raises Unreadable: with the reason
        """
        document = _document(record, None)
        picture = document.get("thumbnail")
        if isinstance(picture, dict):
            try:
                document["thumbnail"] = {**picture, "content": base64.b64decode(picture["content"], validate=True)}
            except (ValueError, TypeError, KeyError):
                raise Unreadable("the content of its thumbnail is not base64") from None
        words = document.get("fulltext")
        if isinstance(words, dict) and PACKED in words:
            document["fulltext"] = {"sha1hex": words.get("sha1hex"), "text": _unpacked(words[PACKED])}
        return document, Delivery.read(record.headers).ticket


@dataclass(frozen=True)
class DeadLetter:
    """A message that nobody works on any more, and why."""

    reason: str
    topic: str
    partition: int
    offset: int
    key: str | None
    message: str
    """Its value as text, at most EXCERPT_BYTES of it."""
    message_bytes: int
    """How long the value was."""
    failed_at: str
    """ISO 8601, UTC."""
    ticket: str | None = None

    @classmethod
    def of(cls, record: Record, reason: str, *, when: str) -> DeadLetter:
        value = record.value or b""
        try:
            ticket = Delivery.read(record.headers).ticket
        except Unreadable:
            ticket = None
        return cls(
            reason=reason[:2000],
            topic=record.partition.topic,
            partition=record.partition.number,
            offset=record.offset,
            key=None if record.key is None else record.key[:1000].decode("utf-8", "replace"),
            message=value[:EXCERPT_BYTES].decode("utf-8", "replace"),
            message_bytes=len(value),
            failed_at=when,
            ticket=ticket,
        )

    def encode(self) -> Message:
        value = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return Message((self.key or "").encode(), _value(value), Delivery(ticket=self.ticket).headers())

    @classmethod
    def decode(cls, record: Record) -> DeadLetter:
        """:raises Unreadable: with the reason"""
        try:
            read: DeadLetter = _DEAD.validate_python(_document(record, None))
        except pydantic.ValidationError as problem:
            raise Unreadable(_first(problem)) from None
        return read


_DEAD = pydantic.TypeAdapter(DeadLetter)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _packed(words: FullText) -> bytes:
    """Words that have no room as they are."""
    return json_text({"sha1hex": words.sha1hex, PACKED: _base64(zlib.compress(words.text.encode()))}).encode()


def _unpacked(content: Any) -> str:
    """:raises Unreadable: with the reason"""
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(base64.b64decode(content, validate=True), MAX_TEXT_BYTES)
        if not unpacking.eof:
            raise Unreadable(f"its fulltext is not whole, or has more than {MAX_TEXT_BYTES:,} bytes")
        return text.decode()
    except (ValueError, TypeError, zlib.error):
        raise Unreadable("its fulltext cannot be unpacked") from None


def _value(document: Mapping[str, Any]) -> bytes:
    return json_text({VERSION_FIELD: SCHEMA_VERSION, **document}).encode()


def _document(record: Record, most_bytes: int | None) -> dict[str, Any]:
    """The JSON object of a record, without its version. One that does not say its version has the first."""
    value = record.value
    if value is None:
        raise Unreadable("the message is empty")
    if most_bytes is not None and len(value) > most_bytes:
        raise Unreadable(f"the message has {len(value):,} bytes; at most {most_bytes:,} are read")
    try:
        document = decoded(value, _DECODER, dict)
    except Refused as refused:
        raise Unreadable(str(refused)) from None
    version = document.pop(VERSION_FIELD, SCHEMA_VERSION)
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise Unreadable(f"{VERSION_FIELD} is {version!r:.40}; this version reads {SCHEMA_VERSION}")
    return document


def _first(problem: pydantic.ValidationError) -> str:
    first = problem.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:200]
