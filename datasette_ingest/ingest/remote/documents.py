"""XML documents of a topic into the store: each under the kind `xml` and the SHA-1 that is its key."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from xml.parsers import expat

import msgspec

from ...sqlite import iso
from ..sinks import KeptFiles
from .client import Brokers, Evicted
from .messages import DeadLetter, Unreadable
from .record import Partition, Record
from .settings import KafkaSettings
from .topics import topics_of

log = logging.getLogger(__name__)

KIND, MIMETYPE = "xml", "application/xml"
MOST_AT_ONCE = 50
POLL_SECONDS = 0.5
IDLE_POLLS = 4
"""After so many polls without a message the topic is looked at: all is read where nothing is left."""
_XML_FIELDS = ("xml", "jats_xml", "tei_xml")
"""Where a JSON message has the document; the others are names of sandcrawler's."""
_SHA1 = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class XmlDocument:
    """A document, and the SHA-1 of the file that it was made of. None: the topic holds none any more."""

    sha1hex: str
    content: bytes | None

    @classmethod
    def read(cls, record: Record) -> XmlDocument:
        """A message is the document itself, or a JSON object with it as text. What can be checked is: the key, that the
        SHA-1 in the JSON is the same, and that the document is well-formed.

        :raises Unreadable: with the reason
        """
        key = (record.key or b"").decode("ascii", "replace").lower()
        if not _SHA1.fullmatch(key):
            raise Unreadable("its key is no SHA-1 in hex")
        value = record.value
        if value is None:
            return cls(key, None)
        content = value if not value.lstrip().startswith(b"{") else _from_json(value, key)
        _check_well_formed(content)
        return cls(key, content)


def _from_json(value: bytes, key: str) -> bytes:
    try:
        document: dict[str, Any] = msgspec.json.decode(value, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise Unreadable(f"not JSON: {problem}"[:200]) from None
    named = document.get("sha1hex") or key
    if str(named).lower() != key:
        raise Unreadable(f"its key is {key}, and it says that the SHA-1 is {str(named)[:40]!r}")
    text = next((document[name] for name in _XML_FIELDS if isinstance(document.get(name), str)), None)
    if text is None:
        raise Unreadable(f"it has no document: {' or '.join(_XML_FIELDS)}")
    try:
        return str(text).encode()
    except UnicodeEncodeError:
        raise Unreadable("its document is not Unicode") from None


def _check_well_formed(content: bytes) -> None:
    """:raises Unreadable: for what is no XML. Nothing outside of the document is read."""
    try:
        expat.ParserCreate().Parse(content, True)
    except expat.ExpatError as problem:
        raise Unreadable(f"its document is not well-formed XML: {problem}") from None


class DocumentPersister:
    """Reads documents until none is left, or for ever. Several processes share the partitions.

    :param store: where they are kept
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        store: KeptFiles,
        *,
        say: Callable[[str], None] = log.info,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.topics = topics_of(kafka)
        self.counts: Counter[str] = Counter()
        """`kept`, `unreadable`, `deleted` (those that the topic holds no more; the store keeps them)."""
        self._group = f"{kafka.prefix}-{kafka.env}-persist-docs"
        self._brokers = Brokers(kafka, say=say)
        self._store, self._say, self._clock = store, say, clock

    async def run(self, stop: asyncio.Event, *, forever: bool, on_progress: Callable[[], None] = lambda: None) -> None:
        """Keep what is on the topic, until `stop` is set or, if not `forever`, all is kept.

        An offset is committed when its documents are in the store: a process that is killed between keeps some again,
        which changes nothing.

        :raises KafkaRefused: when the brokers do not let us
        :raises StoreError: when the store cannot be used
        """
        stopping = asyncio.ensure_future(stop.wait())
        working = asyncio.ensure_future(self._work(forever, on_progress))
        try:
            await asyncio.wait({stopping, working}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
        finally:
            stopping.cancel()

    async def _work(self, forever: bool, on_progress: Callable[[], None]) -> None:
        await self._store.prepare()
        name = self.topics.xml_doc.name
        await self._brokers.make_topics([self.topics.xml_doc, self.topics.dead])
        async with (
            self._brokers.producer() as producer,
            self._brokers.consumer([name], group=self._group) as consumer,
        ):
            idle = 0
            while True:
                records = await consumer.poll(seconds=POLL_SECONDS, most=MOST_AT_ONCE)
                idle = 0 if records else idle + 1
                ends: dict[Partition, int] = {}
                for record in records:
                    reason = await self._keep(record)
                    if reason is not None:
                        letter = DeadLetter.of(record, reason, when=iso(int(self._clock())))
                        await producer.send(self.topics.dead.name, letter.encode())
                        self.counts["unreadable"] += 1
                        self._say(f"{record.place} cannot be kept and went to {self.topics.dead.name}: {reason[:200]}")
                    ends[record.partition] = record.offset + 1
                if ends:
                    with contextlib.suppress(Evicted):  # who has the partitions now keeps them again
                        await consumer.commit(ends)
                    on_progress()
                if not forever and idle >= IDLE_POLLS and consumer.assignment():
                    left = await consumer.ends()
                    if all([await consumer.position(partition) >= end for partition, end in left.items()]):
                        return

    async def _keep(self, record: Record) -> str | None:
        """Keep one document; the reason why it cannot be read."""
        try:
            document = XmlDocument.read(record)
        except Unreadable as problem:
            return str(problem)
        if document.content is None:
            self.counts["deleted"] += 1
        else:
            await self._store.keep(KIND, document.sha1hex, MIMETYPE, document.content)
            self.counts["kept"] += 1
        return None
