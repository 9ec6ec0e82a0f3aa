"""A job over the fleet (`run_on: kafka`): its rows wait for results from a topic, which are written as a crawl's are."""

from __future__ import annotations

import asyncio
import logging
import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ... import compat
from ...jobs import results_log
from ...jobs import store as job_store
from ...jobs.engine.complete import DeferredRows, complete
from ...jobs.errors import JobError
from ...jobs.model import BatchOutcome, Decision, JobStatus, RowError
from ..load.results import LoadedResult
from ..model import IngestRequest
from ..remote.routing import NOWHERE, host_of
from ..remote.settings import KafkaSettings
from ..store import offsets
from ..store.offsets import Place
from . import outbox

if TYPE_CHECKING:
    from ..remote.jobs import Dead, FleetLink

log = logging.getLogger(__name__)

READER = "jobs"
"""Under this name the database says how far its jobs have read the topics."""
REASON = "Workers of the fleet have them"

AnswerRows = Callable[[sqlite3.Connection, DeferredRows, LoadedResult], BatchOutcome]
"""(a connection to read with, rows, the result of their request) -> what is written."""


@dataclass(frozen=True)
class AtFleet:
    """A row whose answer comes from the fleet. Both tickets are new."""

    ticket: str
    request_ticket: str
    request: IngestRequest

    @classmethod
    def of(cls, request: IngestRequest) -> AtFleet:
        return cls(secrets.token_hex(16), secrets.token_hex(16), request)


def request_for_fleet(request: IngestRequest, doi_resolver: str) -> IngestRequest | None:
    """The request as it goes through the fleet; None for one that asks no host, which is answered at once."""
    cell = request.base_url
    if isinstance(cell, bytes):
        try:
            cell = cell.decode()
        except UnicodeDecodeError:
            return None
    if not isinstance(cell, str) or "\0" in cell or host_of(cell, doi_resolver) == NOWHERE:
        return None
    return replace(request, base_url=cell, received=None)


class FleetDesk:
    """The rows of one database that are at the fleet: what a FleetLink asks for.

    :param answer_rows: makes what is written from a result
    """

    def __init__(self, datasette: Any, db: Any, answer_rows: AnswerRows) -> None:
        self._datasette, self._db, self._answer_rows = datasette, db, answer_rows
        self.jobs: Counter[int] = Counter()
        """Those over the fleet that this process works on -> how many runners each has."""
        self._saying: set[asyncio.Task[None]] = set()
        self.refusal: str | None = None

    async def places(self, topic: str) -> Mapping[int, Place]:
        return await compat.read(self._db, lambda conn: offsets.places(conn, READER, topic))

    async def advance(self, topic: str, read: Mapping[int, Place], anew: Collection[int]) -> None:
        def write(conn: sqlite3.Connection) -> None:
            offsets.forget(conn, READER, topic, anew)
            offsets.advance(conn, READER, topic, read)

        await compat.write(self._db, write)

    async def unpublished(self, most: int) -> Sequence[tuple[str, IngestRequest]]:
        now = time.time()
        if not await compat.read(self._db, lambda conn: outbox.has_unpublished(conn, now)):
            return ()
        return await compat.write(self._db, lambda conn: outbox.claim(conn, most, now))

    async def published(self, tickets: Collection[str]) -> None:
        await compat.write(self._db, lambda conn: outbox.note_published(conn, tickets, time.time()))

    async def publish_again(self) -> None:
        await compat.write(self._db, outbox.publish_again)

    async def known(self, tickets: Collection[str]) -> Collection[str]:
        return await compat.read(self._db, lambda conn: outbox.known(conn, tickets)) if tickets else ()

    async def answer(self, ticket: str, given: LoadedResult | Dead) -> None:
        is_settled = False
        while not is_settled:  # a row may come to share the request meanwhile
            digest, rows = await compat.read(self._db, lambda conn: outbox.waiting(conn, ticket))
            for row in rows:
                await self._answer_row(row, digest, given)
            is_settled = await compat.write(
                self._db,
                lambda conn, rows=rows: outbox.settle(conn, ticket, rows),  # type: ignore[misc]
            )

    async def _answer_row(self, ticket: str, digest: str, given: LoadedResult | Dead) -> None:
        def answer(conn: sqlite3.Connection, deferred: DeferredRows) -> BatchOutcome:
            if not isinstance(given, LoadedResult):
                errors = [RowError(pk, given.reason) for pk in deferred.pks]
                return BatchOutcome(errors=errors, outcomes={"error": len(errors)} if errors else {})
            return self._answer_rows(conn, deferred, given)

        try:
            await complete(self._datasette, self._db.name, ticket, answer)
        except JobError as problem:
            log.warning("rows of %s: an answer of the fleet is not used: %s", self._db.name, problem)

    def say(self, sentence: str) -> None:
        """Write it into the log of each of the jobs, in the background."""

        def write(conn: sqlite3.Connection) -> None:
            for job_id in sorted(self.jobs):
                results_log.add_event(conn, job_id, sentence, time.time())

        async def note() -> None:
            try:
                await compat.write(self._db, write)
            except (sqlite3.DatabaseError, compat.Unavailable) as problem:
                log.warning("%s; the log of jobs cannot say so: %s", sentence, problem)

        task = asyncio.ensure_future(note())
        self._saying.add(task)
        task.add_done_callback(self._saying.discard)

    async def refused(self, sentence: str) -> None:
        self.refusal = sentence
        decision = Decision(JobStatus.PAUSED, sentence)

        def pause(conn: sqlite3.Connection) -> None:
            for job_id in self.jobs:
                job_store.change_status(conn, job_id, [JobStatus.RUNNING], decision, now=time.time())

        await compat.write(self._db, pause)


class Fleets:
    """The links of this process to fleets: one for each database that has a job over a fleet at work."""

    def __init__(self, answer_rows: AnswerRows) -> None:
        self._answer_rows = answer_rows
        self._links: dict[tuple[str, KafkaSettings], tuple[FleetDesk, FleetLink]] = {}

    async def begin(self, datasette: Any, db: Any, job_id: int, kafka: KafkaSettings, doi_resolver: str) -> FleetDesk:
        """A runner of a job begins to work over a fleet."""
        from ..remote.jobs import FleetLink  # a library of the extra `kafka`

        await compat.write(db, outbox.forget_jobs)
        if (db.name, kafka) not in self._links:
            desk = FleetDesk(datasette, db, self._answer_rows)
            self._links[db.name, kafka] = desk, FleetLink(kafka, desk, doi_resolver=doi_resolver)
            self._links[db.name, kafka][1].open()
        desk = self._links[db.name, kafka][0]
        desk.jobs[job_id] += 1
        return desk

    async def end(self, db: Any, job_id: int) -> None:
        """A runner of a job that has begun ends its work. The last one of a database closes the link."""
        for mark, (desk, link) in list(self._links.items()):
            if mark[0] != db.name or job_id not in desk.jobs:
                continue
            desk.jobs[job_id] -= 1
            desk.jobs += Counter()  # without those that have none
            if not desk.jobs:
                del self._links[mark]
                await link.aclose()


__all__ = ["REASON", "AtFleet", "FleetDesk", "Fleets", "request_for_fleet"]
