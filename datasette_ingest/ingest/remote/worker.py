"""A worker of the fleet: takes requests from a topic, crawls, and sends the results to another.

At least once: the offset of a request is committed after its result is stored. Each partition of the requests has one
worker at a time, and all requests of one host are in one partition, so one worker at a time talks to a host.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
import traceback
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from ...sqlite import iso_utc
from ..crawler import Crawler
from ..errors import Elsewhere, PutOff
from ..fetch.memory import Memory
from ..http.politeness import LONGEST_BACK_OFF, ServiceRates
from ..http.waiting import around_waits
from ..settings import CrawlSettings
from .client import Brokers, Evicted, KafkaRefused, TooLarge
from .health import Metrics
from .messages import DeadLetter, Delivery, RequestMessage, ResultMessage, Unreadable
from .parking import WAITS, due, partition_for
from .queues import HostQueues
from .record import Message, Partition, Record
from .routing import partition_of
from .settings import KafkaSettings
from .takeover import Note, Offsets, Takeover, take_over
from .topics import Topics, topics_of

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5
"""How often offsets are committed."""
PATIENCE = 60.0
"""Seconds that a request may wait for its turn at a host. One whose turn is further away is parked."""
HOST_AT_ONCE = 4
"""Requests of one host that are begun at once, as a multiple of `per_host_concurrency`: some wait for other hosts."""
MOST_WAITING = 200
"""Requests of one host that wait here. More are parked."""
FEW_WAITING = 4
"""The same in a partition of which much is held: then hosts with many requests leave room for others."""
LEAST_SHARE = 50
"""Requests of one partition that may be held in any case."""
AHEAD = 200
"""How far beyond what was read a note says that messages may have been begun, so that not every read needs one."""
MAX_FAILURES = 3
"""A request that has failed so often by a fault of ours goes to the dead topic."""
FAILURE_SECONDS = 15.0
"""How long one that has failed waits for its next try."""
REVOKE_SECONDS = 5.0
"""How long fetches under way may take to end when their partition goes to another worker."""
STOP_SECONDS = 4.5
"""The same when the process is to end."""
BROKER_SECONDS = 1.0
"""How long brokers may take to store what is said when partitions are handed back."""
REST_NOTED = 5.0
"""A host's rest that is longer, in seconds, is made known to the next owner of its partition."""
LOST_AFTER = 0.7
"""After this part of the session without word from the brokers, hosts are no longer asked: others may ask them soon."""


@dataclass(eq=False)
class Owned:
    """A partition of the requests that this worker has. Mutable, from its assignment to its revocation."""

    partition: Partition
    takeover: Takeover
    offsets: Offsets
    note: Note
    """What was said last, or is to be said."""
    committed: int
    is_told: bool = True
    """Whether the note was said."""
    suspects: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    @property
    def number(self) -> int:
        return self.partition.number


@dataclass(eq=False)
class Parked:
    """A partition of the parked requests that this worker has, and those of its messages that were read."""

    partition: Partition
    committed: int
    waiting: deque[Record] = field(default_factory=deque)
    next: int = 0
    """The offset after the last message that is done."""
    moving: asyncio.Task[None] | None = None


@dataclass(eq=False)
class Job:
    """A request that this worker holds. Mutable."""

    owned: Owned
    record: Record
    message: RequestMessage
    host: str
    task: asyncio.Task[None] | None = None
    waits: int = 0
    """How many of its fetches wait for their turn."""
    is_answered: bool = False
    """Whether it asks no hosts any more: what became of it is being stored."""

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        self.waits += 1
        try:
            yield
        finally:
            self.waits -= 1


class Worker:
    """One worker.

    :param lookahead: requests that it holds at once
    :param limit_seconds: the longest time that a request may take
    :param brokers: what is asked instead of the brokers of `kafka`
    :param make_crawler: makes a Crawler
    :param clock: seconds since 1970
    :param say: is told in a sentence what a person should know
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        crawl: CrawlSettings,
        *,
        lookahead: int = 2000,
        limit_seconds: float = 900.0,
        brokers: Brokers | None = None,
        make_crawler: Callable[..., Crawler] = Crawler,
        clock: Callable[[], float] = time.time,
        say: Callable[[str], None] = log.info,
    ) -> None:
        self.topics: Topics = topics_of(kafka)
        self.metrics = Metrics("ingest_fleet")
        self._kafka = kafka
        self._crawl = crawl
        self._lookahead = lookahead
        self._limit_seconds = limit_seconds
        self._clock = clock
        self._say = say
        self._brokers = brokers or Brokers(kafka, say=say)
        self._crawler = make_crawler(
            crawl,
            patience=PATIENCE,
            processes=self.workers,
            is_ours=self._is_ours,
            on_back_off=self._note_rest,
            services=ServiceRates(self.workers),
        )
        self._owned: dict[Partition, Owned] = {}
        self._parked: dict[Partition, Parked] = {}
        self._queues: HostQueues[Job] = HostQueues(crawl.per_host_concurrency * HOST_AT_ONCE)
        self._begun: set[Job] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._alone = asyncio.Lock()
        """Held by a request that is begun with no other suspect of the process."""
        self._partitions = 1
        self._heard = 0.0
        """When the brokers last said that our partitions are ours, by the event loop's clock."""
        self._is_lost = False
        """Whether that is so long ago that others may have them."""
        self._quiet_until = 0.0
        """No request is begun before, by the event loop's clock: the last owner may just have asked its host."""
        self._is_ready = False
        self._is_stopping = False
        self._failure: asyncio.Future[None] | None = None
        self.metrics.trouble = self._trouble
        self.metrics.gauges |= {
            "partitions": lambda: len(self._owned),
            "requests_waiting": lambda: len(self._queues),
            "requests_begun": lambda: len(self._begun),
            "requests_parked_here": lambda: sum(len(each.waiting) for each in self._parked.values()),
            "kafka_up": lambda: float(self._brokers.unreachable_since is None),
            "workers": self.workers,
        }

    def _is_ours(self, host: str) -> bool:
        """Whether this worker has the partition of a host."""
        return Partition(self.topics.requests.name, partition_of(host.encode(), self._partitions)) in self._owned

    def workers(self) -> int:
        """How many workers the fleet seems to have: partitions are divided evenly."""
        return -(-self._partitions // max(1, len(self._owned)))

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set. Then what is under way is finished or handed back within ten seconds.

        :raises KafkaRefused: when the brokers do not let us work
        """
        stopping = asyncio.ensure_future(stop.wait())
        working = asyncio.ensure_future(self._work(stopping))
        try:
            await asyncio.wait({stopping, working}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done() and not self._is_ready:  # it waits for the brokers, and has nothing in hand
                working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
        finally:
            stopping.cancel()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await self._crawler.aclose()

    async def _work(self, stopping: asyncio.Future[Any]) -> None:
        counts = await self._brokers.make_topics(self.topics.of_worker)
        self._partitions = counts[self.topics.requests.name]
        self._check(counts)
        self._failure = asyncio.get_running_loop().create_future()
        names = (self.topics.requests.name, self.topics.later.name)
        group = f"{self._kafka.prefix}-{self._kafka.env}-ingest-file"
        async with (
            self._brokers.producer() as self._producer,
            self._brokers.consumer(names, group=group, listener=self) as self._consumer,
        ):
            self._is_ready = True
            loops = [asyncio.ensure_future(each) for each in (self._read_forever(), self._tick_forever())]
            try:
                ends: set[asyncio.Future[Any]] = {stopping, self._failure, *loops}
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._is_stopping = True
                for each in loops:
                    each.cancel()
                failures = [f for f in await asyncio.gather(*loops, return_exceptions=True) if isinstance(f, Exception)]
                await self._hand_back(list(self._owned), STOP_SECONDS)
                for task in list(self._tasks):
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._failure.done():
                self._failure.result()
            if failures:
                raise failures[0]

    def _check(self, counts: dict[str, int]) -> None:
        least = {self.topics.open.name: self._partitions, self.topics.later.name: len(WAITS)}
        for name, number in least.items():
            if counts[name] < number:
                raise KafkaRefused(
                    f"The topic {name} has {counts[name]} partitions. It needs {number}: add some, or delete it"
                )

    def _trouble(self) -> str | None:
        if self._brokers.unreachable_since is not None:
            return "Kafka cannot be reached"
        return None if self._is_ready else "starting"

    # Partitions come and go

    async def assigned(self, partitions: Collection[Partition]) -> None:
        ours = [each for each in partitions if each.topic == self.topics.requests.name]
        notes = await self._brokers.last_messages(self.topics.open.name) if ours else {}
        beginnings = await self._consumer.beginnings() if partitions else {}
        for partition in partitions:
            committed = await self._consumer.committed(partition)
            start = beginnings[partition] if committed is None else max(committed, beginnings[partition])
            self._consumer.seek(partition, start)
            if partition in ours:
                last = notes.get(partition.number)
                self._owned[partition] = self._own(partition, None if last is None else Note.decode(last.value), start)
            else:
                self._parked[partition] = Parked(partition, start, next=start)
        loop = asyncio.get_running_loop()
        self._heard, self._is_lost = loop.time(), False
        self._quiet_until = loop.time() + self._crawl.per_host_delay
        loop.call_later(self._crawl.per_host_delay, self._begin)
        self._say(f"Working on {len(self._owned)} of {self._partitions} partitions")

    def _own(self, partition: Partition, last: Note | None, start: int) -> Owned:
        takeover = take_over(last, start)
        note = takeover.note
        if note.deaths > (0 if last is None else last.deaths):
            self._say(
                f"A worker of partition {partition.number} ended without handing it back ({note.deaths} in a row): "
                f"{note.until - start} requests or fewer are begun a few at a time"
            )
        now = self._clock()
        for host, until in note.rests.items():
            if 0 < until - now <= 2 * LONGEST_BACK_OFF:
                self._crawler.hosts.limiter(host).back_off(until - now)
        at_once = takeover.at_once(start)
        is_new = last is None or note != last
        return Owned(
            partition,
            takeover,
            Offsets(start),
            note,
            start,
            is_told=not is_new,
            suspects=asyncio.Semaphore(at_once or 1),
        )

    async def revoked(self, partitions: Collection[Partition]) -> None:
        await self._hand_back(partitions, REVOKE_SECONDS)

    async def _hand_back(self, partitions: Iterable[Partition], seconds: float) -> None:
        """Let go of partitions: what waits is dropped, what is under way may end within some time, and is committed."""
        parked = [self._parked.pop(each) for each in partitions if each in self._parked]
        owned = [self._owned[each] for each in partitions if each in self._owned]
        if self._is_stopping:
            parked += self._parked.values()
        self._queues.drop(lambda job: job.owned in owned)
        jobs = [job for job in self._begun if job.owned in owned]
        for job in jobs:
            if job.waits and not job.is_answered and job.task is not None:
                job.task.cancel()
        tasks = [job.task for job in jobs if job.task is not None]
        tasks += [each.moving for each in parked if each.moving is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await self._crawler.close_idle()
        for each in owned:
            each.note = replace(each.note, clean=True, alone=None)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.gather(*map(self._tell, owned)), BROKER_SECONDS)
        offsets = {each.partition: each.offsets.committable for each in owned}
        offsets |= {each.partition: each.next for each in parked}
        if offsets:
            with contextlib.suppress(Evicted):
                await self._consumer.commit(offsets, seconds=BROKER_SECONDS)
        for each in owned:
            self._owned.pop(each.partition, None)

    # Reading

    async def _read_forever(self) -> None:
        while True:
            self._make_room()
            records = await self._consumer.poll(seconds=TICK_SECONDS, most=500)
            batches: dict[Partition, list[Record]] = {}
            for record in records:
                batches.setdefault(record.partition, []).append(record)
            await asyncio.gather(*(self._take(partition, batch) for partition, batch in batches.items()))
            self._begin()

    def _make_room(self) -> None:
        """Read only partitions of which more can be held."""
        full = [each.partition for each in self._owned.values() if len(each.offsets) >= 2 * self._share()]
        full += [each.partition for each in self._parked.values() if len(each.waiting) >= self._lookahead]
        mine = self._consumer.assignment()
        self._consumer.resume(mine.difference(full))
        self._consumer.pause(mine.intersection(full))

    def _share(self) -> int:
        """How many requests of one partition are held, if its hosts have many."""
        return max(LEAST_SHARE, self._lookahead // (2 * max(1, len(self._owned))))

    async def _take(self, partition: Partition, records: list[Record]) -> None:
        if (parked := self._parked.get(partition)) is not None:
            parked.waiting.extend(records)
            return
        owned = self._owned.get(partition)
        if owned is None:  # it was revoked after it was read
            return
        last = records[-1].offset
        if last >= owned.note.until:
            deaths = 0 if owned.offsets.committable >= owned.takeover.note.until else owned.note.deaths
            owned.note = replace(owned.note, until=last + 1 + AHEAD, deaths=deaths)
            owned.is_told = False
        if not owned.is_told:
            await self._tell(owned)
        if self._owned.get(partition) is owned:
            for record in records:
                self._admit(owned, record)

    def _admit(self, owned: Owned, record: Record) -> None:
        """Hold a request, or say where else it goes."""
        owned.offsets.begin(record.offset)
        self.metrics.add("requests_read")
        if record.offset == owned.takeover.culprit:
            self._spawn(self._bury(owned, record, "worker processes ended while they worked on it, and on it alone"))
            return
        try:
            message = RequestMessage.decode(record)
        except Unreadable as problem:
            self._spawn(self._bury(owned, record, str(problem)))
            return
        host = message.host(self._crawl.doi_resolver)
        if partition_of(host.encode(), self._partitions) != owned.number:
            self._spawn(self._route(owned, record, message))
            return
        job = Job(owned, record, message, host)
        interval = self._crawler.hosts.limiter(host).interval
        most = MOST_WAITING if len(owned.offsets) < self._share() else FEW_WAITING
        wait = self._queues.add(host, job, most=most, now=self._clock(), interval=interval)
        if wait is not None:
            self._spawn(self._park(job, max(wait, WAITS[0])))

    # Answering

    def _begin(self) -> None:
        """Begin what may be begun."""
        if self._is_stopping or self._is_lost or asyncio.get_running_loop().time() < self._quiet_until:
            return
        while (job := self._queues.begin()) is not None:
            self._begun.add(job)
            job.task = self._spawn(self._answer(job))

    async def _answer(self, job: Job) -> None:
        try:
            async with self._turn(job):
                around_waits.set(job.waiting)
                await self._crawl_one(job)
        finally:
            self._begun.discard(job)
            self._queues.finish(job.host)
            self._begin()

    @contextlib.asynccontextmanager
    async def _turn(self, job: Job) -> Any:
        """The right to begin a request, of which there are few for those that a process may have died with."""
        owned, offset = job.owned, job.record.offset
        at_once = owned.takeover.at_once(offset)
        if at_once is None:
            yield
            return
        async with owned.suspects:
            if at_once > 1:
                yield
                return
            async with self._alone:
                owned.note = replace(owned.note, alone=offset)
                await self._tell(owned)
                yield
                owned.note = replace(owned.note, alone=None)
                await self._tell(owned)

    async def _crawl_one(self, job: Job) -> None:
        delivery = job.message.delivery
        memory = Memory(_remembered(delivery, self._clock()))
        try:
            result = await asyncio.wait_for(
                self._crawler.ingest(job.message.request, back_offs=delivery.back_offs, memory=memory),
                self._limit_seconds,
            )
        except PutOff as put_off:
            job.is_answered = True
            kept = replace(
                delivery,
                back_offs=delivery.back_offs + put_off.counts,
                memory=_kept(delivery, memory, self._clock()),
                host=put_off.host if isinstance(put_off, Elsewhere) else delivery.host,
            )
            job.message = replace(job.message, delivery=kept)
            if isinstance(put_off, Elsewhere):
                await self._route(job.owned, job.record, job.message)
            else:
                await self._park(job, put_off.seconds)
            return
        except Exception as problem:  # noqa: BLE001 - a fault of ours; the request is tried again, then said to be dead
            job.is_answered = True
            await self._failed(job, problem)
            return
        job.is_answered = True
        when = iso_utc(datetime.fromtimestamp(self._clock(), timezone.utc))
        answer = ResultMessage(replace(result, updated=when), delivery.ticket)
        try:
            await self._producer.send(self.topics.results.name, answer.encode())
        except TooLarge as problem:
            await self._bury(job.owned, job.record, f"its result cannot be sent: {problem}")
            return
        self.metrics.add("results", status=result.status)
        self._finish(job.owned, job.record)

    async def _failed(self, job: Job, problem: Exception) -> None:
        delivery = job.message.delivery
        failures = delivery.failures + 1
        log.warning("%s failed: %r", job.record.place, problem)
        self.metrics.add("failures")
        if failures >= MAX_FAILURES:
            said = "".join(traceback.format_exception(problem))[-1500:]
            await self._bury(
                job.owned, job.record, f"failed {failures} times, the last time with {problem!r:.400}\n{said}"
            )
            return
        job.message = replace(job.message, delivery=replace(delivery, failures=failures))
        await self._park(job, FAILURE_SECONDS)

    # Where else a request goes

    async def _route(self, owned: Owned, record: Record, message: RequestMessage) -> None:
        """Send a request to the partition of the host that it asks next."""
        if await self._send_request(owned, record, message):
            self.metrics.add("requests_routed")

    async def _park(self, job: Job, seconds: float) -> None:
        """Let a request wait in the topic for that, where it holds no partition of the requests."""
        delivery = replace(job.message.delivery, not_before=self._clock() + seconds)
        message = replace(job.message, delivery=delivery)
        if await self._send_request(job.owned, job.record, message, partition_for(seconds)):
            self.metrics.add("requests_parked")

    async def _send_request(
        self, owned: Owned, record: Record, message: RequestMessage, parked_in: int | None = None
    ) -> bool:
        """Send on what is now known of a request; False if it has grown too large for that, and is dead."""
        topic = self.topics.requests if parked_in is None else self.topics.later
        try:
            await self._producer.send(topic.name, message.encode(self._crawl.doi_resolver), partition=parked_in)
        except TooLarge as problem:
            await self._bury(owned, record, f"it cannot be sent on: {problem}")
            return False
        self._finish(owned, record)
        return True

    async def _bury(self, owned: Owned | None, record: Record, reason: str) -> None:
        """Send what nobody can work on to the dead topic."""
        when = iso_utc(datetime.fromtimestamp(self._clock(), timezone.utc))
        await self._producer.send(self.topics.dead.name, DeadLetter.of(record, reason, when=when).encode())
        log.warning("%s is dead: %s", record.place, reason.partition("\n")[0])
        self.metrics.add("requests_dead")
        if owned is not None:
            self._finish(owned, record)

    def _finish(self, owned: Owned, record: Record) -> None:
        owned.offsets.finish(record.offset)

    # Parked requests

    async def _move(self, parked: Parked) -> None:
        """Send on those of a partition whose wait is over."""
        while parked.waiting and due(parked.waiting[0].timestamp, parked.partition.number) <= self._clock():
            batch: list[Record] = []
            while (
                parked.waiting
                and len(batch) < 500
                and due(parked.waiting[0].timestamp, parked.partition.number) <= self._clock()
            ):
                batch.append(parked.waiting.popleft())
            await asyncio.gather(*map(self._send_on, batch))
            parked.next = batch[-1].offset + 1

    async def _send_on(self, record: Record) -> None:
        try:
            delivery = Delivery.read(record.headers)
        except Unreadable as problem:
            await self._bury(None, record, str(problem))
            return
        left = (delivery.not_before or 0.0) - self._clock()
        topic, number = self.topics.requests.name, None
        message = record.message
        if left > WAITS[0] / 2:
            topic, number = self.topics.later.name, partition_for(left)
        else:
            message = replace(message, headers=_changed(record.headers, replace(delivery, not_before=None)))
        await self._producer.send(topic, message, partition=number)

    # Every half second

    async def _tick_forever(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._queues.forget_promises(self._clock())
            await asyncio.gather(*(self._tell(owned) for owned in self._owned.values() if not owned.is_told))
            await self._commit()
            for parked in self._parked.values():
                if parked.waiting and (parked.moving is None or parked.moving.done()):
                    parked.moving = self._spawn(self._move(parked))

    async def _commit(self) -> None:
        """Commit what is done; also, from time to time, to hear whether the partitions are still ours."""
        loop = asyncio.get_running_loop()
        session = self._kafka.session_seconds
        is_due = loop.time() - self._heard > session / 4
        known: dict[Owned | Parked, int] = {each: each.offsets.committable for each in self._owned.values()}
        known.update((each, each.next) for each in self._parked.values())
        changed = {each: offset for each, offset in known.items() if is_due or offset != each.committed}
        if changed:
            with contextlib.suppress(Evicted):
                offsets = {each.partition: offset for each, offset in changed.items()}
                if await self._consumer.commit(offsets, seconds=max(1.0, session / 4)):
                    for each, offset in changed.items():
                        each.committed = offset
                    self._heard = loop.time()
        if self._owned and loop.time() - self._heard > session * LOST_AFTER:
            self._lose()
        elif self._is_lost and self._heard:
            self._is_lost = False
            self._begin()

    def _lose(self) -> None:
        """Ask no host any more: the brokers may have given our partitions to others. What was begun is held again."""
        if not self._is_lost:
            self._is_lost = True
            self._say("Kafka does not say that our partitions are still ours: no host is asked until it does")
        for job in [each for each in self._begun if not each.is_answered and each.task is not None]:
            self._begun.discard(job)
            job.task.cancel()  # type: ignore[union-attr]
            self._queues.put_back(job.host, Job(job.owned, job.record, job.message, job.host))

    # What the next owner must know

    def _note_rest(self, host: str, seconds: float) -> None:
        owned = self._owned.get(Partition(self.topics.requests.name, partition_of(host.encode(), self._partitions)))
        if owned is not None and seconds > REST_NOTED:
            now = self._clock()
            rests = {each: until for each, until in owned.note.rests.items() if until > now}
            owned.note = replace(owned.note, rests={**rests, host: now + seconds})
            owned.is_told = False

    async def _tell(self, owned: Owned) -> None:
        owned.is_told = True
        key = json.dumps(owned.number).encode()
        await self._producer.send(self.topics.open.name, Message(key, owned.note.encode()), partition=owned.number)

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        """A task whose fault ends the worker."""
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (problem := task.exception()) is None:
            return
        if self._failure is not None and not self._failure.done():
            self._failure.set_exception(problem)


def _remembered(delivery: Delivery, now: float) -> Callable[[str], Any]:
    """Reads what earlier tries of a request have left."""

    async def load(key: str) -> Any:
        value, until = delivery.memory.get(key, (None, 0.0))
        return value if until > now else None

    return load


def _kept(delivery: Delivery, memory: Memory, now: float) -> dict[str, tuple[Any, float]]:
    """What the next try of a request finds."""
    kept = {key: value for key, value in delivery.memory.items() if value[1] > now}
    for key, (value, seconds) in memory.changes.items():
        kept.pop(key, None)
        if value is not None:
            kept[key] = (value, now + seconds)
    return kept


def _changed(headers: Any, delivery: Delivery) -> dict[str, bytes]:
    """The headers of a message with another delivery."""
    others = {name: value for name, value in headers.items() if not name.startswith("ingest-")}
    return {**others, **delivery.headers()}
