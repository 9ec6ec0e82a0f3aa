"""What becomes of a request, sent to the topic where it belongs. Each method returns when the brokers have stored it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone

from ...sqlite import iso_utc
from ..model import IngestResult
from .client import Producer, TooLarge
from .health import Metrics
from .messages import DeadLetter, Delivery, RequestMessage, ResultMessage, Unreadable
from .parking import WAITS, partition_for
from .record import Message, Record
from .takeover import Note
from .topics import Topics

log = logging.getLogger(__name__)


class Outbox:
    """Sends for one worker.

    :param clock: seconds since 1970
    """

    def __init__(
        self, producer: Producer, topics: Topics, metrics: Metrics, doi_resolver: str, clock: Callable[[], float]
    ) -> None:
        self._producer = producer
        self._topics = topics
        self._metrics = metrics
        self._doi_resolver = doi_resolver
        self._clock = clock

    async def answer(self, record: Record, result: IngestResult, ticket: str | None) -> None:
        """Send the result of a request."""
        message = ResultMessage(replace(result, updated=self._now()), ticket)
        try:
            await self._producer.send(self._topics.results.name, message.encode())
        except TooLarge as problem:
            await self.bury(record, f"its result cannot be sent: {problem}")
            return
        self._metrics.add("results", status=result.status)

    async def route(self, record: Record, message: RequestMessage) -> None:
        """Send a request to the partition of the host that it asks next."""
        await self._send_request(record, message, None)
        self._metrics.add("requests_routed")

    async def park(self, record: Record, message: RequestMessage, seconds: float) -> None:
        """Let a request wait in a topic of its own, where it holds up no other."""
        delivery = replace(message.delivery, not_before=self._clock() + seconds)
        await self._send_request(record, replace(message, delivery=delivery), partition_for(seconds))
        self._metrics.add("requests_parked")

    async def unpark(self, record: Record) -> None:
        """Send on a parked request whose time in its partition is over: back to its host, or to wait for the rest."""
        try:
            delivery = Delivery.read(record.headers)
        except Unreadable as problem:
            await self.bury(record, str(problem))
            return
        left = (delivery.not_before or 0.0) - self._clock()
        if left > WAITS[0] / 2:
            await self._producer.send(self._topics.later.name, record.message, partition=partition_for(left))
            return
        others = {name: value for name, value in record.headers.items() if not name.startswith("ingest-")}
        headers = {**others, **replace(delivery, not_before=None).headers()}
        await self._producer.send(self._topics.requests.name, replace(record.message, headers=headers))

    async def bury(self, record: Record, reason: str) -> None:
        """Send what nobody can work on to the dead topic."""
        letter = DeadLetter.of(record, reason, when=self._now())
        await self._producer.send(self._topics.dead.name, letter.encode())
        log.warning("%s is dead: %s", record.place, reason.partition("\n")[0])
        self._metrics.add("requests_dead")

    async def tell(self, number: int, note: Note) -> None:
        """Say what the owner of a partition of the requests is at."""
        message = Message(json.dumps(number).encode(), note.encode())
        await self._producer.send(self._topics.open.name, message, partition=number)

    async def _send_request(self, record: Record, message: RequestMessage, parked_in: int | None) -> None:
        topic = self._topics.requests if parked_in is None else self._topics.later
        try:
            await self._producer.send(topic.name, message.encode(self._doi_resolver), partition=parked_in)
        except TooLarge as problem:
            await self.bury(record, f"it cannot be sent on: {problem}")

    def _now(self) -> str:
        return iso_utc(datetime.fromtimestamp(self._clock(), timezone.utc))
