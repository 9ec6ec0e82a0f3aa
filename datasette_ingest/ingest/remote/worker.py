"""A worker of the fleet: takes requests from a topic, crawls, and sends the results to another.

At least once: the offset of a request is committed after its result is stored. Each partition of the requests has one
worker at a time, and all requests of one host are in one partition, so one worker at a time talks to a host.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
import traceback
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import replace
from typing import Any

from ..crawler import Crawler
from ..errors import Elsewhere, PutOff, StoreError
from ..fetch.memory import Memory
from ..http.politeness import LONGEST_BACK_OFF, ServiceRates
from ..http.waiting import around_waits
from ..settings import CrawlSettings
from ..sinks import KeptFiles, store_of
from .client import Brokers, Evicted, KafkaRefused
from .health import Metrics
from .holdings import Held, Owned, Parked
from .messages import Delivery, RequestMessage, Unreadable
from .outbox import Outbox
from .parking import WAITS
from .queues import HostQueues
from .record import Partition, Record
from .routing import partition_of
from .settings import KafkaSettings
from .takeover import Note, take_over
from .topics import topics_of

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5
"""How often offsets are committed."""
PATIENCE = 60.0
"""Seconds that a request may wait for its turn at a host. One whose turn is further away is parked."""
HOST_AT_ONCE = 4
"""Requests of one host that are begun at once, as a multiple of `per_host_concurrency`: some wait for other hosts."""
MOST_WAITING = 200
"""Requests of one host that wait here. More are parked."""
FEW_SECONDS = 2 * WAITS[0]
"""In a partition of which much is held only as many of one host wait as it takes in this time. It is long enough for those
that are parked to be back before the host is idle."""
FEW_WAITING = 4
"""So many of one host may wait in any case."""
LEAST_SHARE = 100
"""Requests of one partition that may be held in any case."""
MAX_FAILURES = 3
"""A request that has failed so often by a fault of ours goes to the dead topic."""
FAILURE_SECONDS = 30.0
"""How long one that has failed waits for its next try."""
STORE_SECONDS = 60.0
"""How long no request is begun after the store of files could not be used."""
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
        self.topics = topics_of(kafka)
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
        self._partitions = kafka.partitions
        self._owned: dict[Partition, Owned] = {}
        self._parked: dict[Partition, Parked] = {}
        self._queues: HostQueues[Held] = HostQueues(crawl.per_host_concurrency * HOST_AT_ONCE)
        self._begun: set[Held] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._alone = asyncio.Lock()
        self._heard = 0.0
        """When the brokers last said that our partitions are ours, by the event loop's clock."""
        self._is_lost = False
        """Whether that is so long ago that others may have them."""
        self._quiet_until = 0.0
        """No request is begun before, by the event loop's clock."""
        self._store_trouble: str | None = None
        """Why files cannot be kept now."""
        self._has_consumer = asyncio.Event()
        self._is_ready = False
        self._is_stopping = False
        self.metrics.trouble = self._trouble
        self.metrics.gauges |= {
            "partitions": lambda: len(self._owned),
            "requests_waiting": lambda: len(self._queues),
            "requests_begun": lambda: len(self._begun),
            "requests_parked_here": lambda: sum(len(each.waiting) for each in self._parked.values()),
            "kafka_up": lambda: float(self._brokers.unreachable_since is None),
            "workers": self.workers,
        }

    def workers(self) -> int:
        """How many workers the fleet seems to have: partitions are divided evenly."""
        return -(-self._partitions // max(1, len(self._owned)))

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set. Then what is under way is finished or handed back within ten seconds.

        :raises KafkaRefused: when the brokers do not let us work
        :raises StoreError: when files cannot be kept until a person has mended it
        """
        stopping = asyncio.ensure_future(stop.wait())
        working = asyncio.ensure_future(self._work(stopping))
        try:
            await asyncio.wait({stopping, working}, return_when=asyncio.FIRST_COMPLETED)
            if not self._is_ready and not working.done():  # it waits for the brokers, and has nothing in hand
                working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
        finally:
            stopping.cancel()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await self._crawler.aclose()

    async def _work(self, stopping: asyncio.Future[Any]) -> None:
        await self._prepare_store()
        counts = await self._brokers.make_topics(self.topics.of_worker)
        self._partitions = counts[self.topics.requests.name]
        self._check(counts)
        names = (self.topics.requests.name, self.topics.later.name)
        group = f"{self._kafka.prefix}-{self._kafka.env}-ingest-file"
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        async with self._brokers.producer() as producer:
            self._outbox = Outbox(producer, self.topics, self.metrics, self._crawl.doi_resolver, self._clock)
            async with self._brokers.consumer(names, group=group, listener=self) as self._consumer:
                self._has_consumer.set()
                self._is_ready = True
                for forever in (self._read_forever(), self._tick_forever()):
                    self._spawn(forever)
                try:
                    await asyncio.wait({stopping, self._failure}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    await self._stop()
                if self._failure.done():
                    self._failure.result()

    async def _prepare_store(self) -> None:
        """Wait until files can be kept, before any is fetched."""
        store = store_of(self._crawl)
        while store is not None:
            if await self._is_usable(store):
                await store.aclose()
                return
            await asyncio.sleep(STORE_SECONDS)

    async def _is_usable(self, store: KeptFiles) -> bool:
        try:
            await store.prepare()
        except StoreError as problem:
            self._note_store(problem)
            return False
        self._store_trouble = None
        return True

    def _note_store(self, problem: StoreError) -> None:
        """Begin nothing for a while; raise what does not pass by itself."""
        if not problem.passes:
            raise problem
        if self._store_trouble is None:
            self._say(f"{problem}. Waiting for it; nothing is lost")
        self._store_trouble = str(problem)
        self._rest(STORE_SECONDS)

    def _rest(self, seconds: float) -> None:
        """Begin no request for some time."""
        loop = asyncio.get_running_loop()
        self._quiet_until = max(self._quiet_until, loop.time() + seconds)
        loop.call_at(self._quiet_until, self._begin)

    def _check(self, counts: Mapping[str, int]) -> None:
        least = {self.topics.open.name: self._partitions, self.topics.later.name: len(WAITS)}
        for name, number in least.items():
            if counts[name] < number:
                raise KafkaRefused(f"The topic {name} has {counts[name]} partitions. It needs {number}: add some")

    async def _stop(self) -> None:
        self._is_stopping = True
        await self._hand_back([*self._owned, *self._parked], STOP_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _trouble(self) -> str | None:
        if self._brokers.unreachable_since is not None:
            return "Kafka cannot be reached"
        if self._store_trouble is not None:
            return self._store_trouble
        return None if self._is_ready else "starting"

    # Partitions come and go

    async def assigned(self, partitions: Collection[Partition]) -> None:
        """The group gives us these partitions."""
        try:
            await self._has_consumer.wait()
            await self._go_on(partitions)
        except Exception as problem:
            self._fail(problem)  # the client library would go on without us
            raise
        self._heard, self._is_lost = asyncio.get_running_loop().time(), False
        self._rest(self._crawl.per_host_delay)  # the owner before may just have asked a host
        self._say(f"Working on {len(self._owned)} of {self._partitions} partitions")

    async def _go_on(self, partitions: Collection[Partition]) -> None:
        """Begin each partition where the group has committed."""
        if not partitions:
            return
        notes = await self._brokers.last_messages(self.topics.open.name)
        beginnings = await self._consumer.beginnings()
        for partition in partitions:
            committed = await self._consumer.committed(partition)
            start = beginnings[partition] if committed is None else max(committed, beginnings[partition])
            self._consumer.seek(partition, start)
            if partition.topic == self.topics.later.name:
                self._parked[partition] = Parked(partition, start, start)
            else:
                record = notes.get(partition.number)
                self._take_over(partition, None if record is None else Note.decode(record.value), start)

    def _take_over(self, partition: Partition, last: Note | None, start: int) -> None:
        takeover = take_over(last, start)
        note, now = takeover.note, self._clock()
        if note.deaths > (0 if last is None else last.deaths):
            self._say(
                f"A worker ended without handing back partition {partition.number} ({note.deaths} in a row). At most "
                f"{note.until - start} requests are begun a few at a time"
            )
        for host, until in note.rests.items():
            if 0 < until - now <= 2 * LONGEST_BACK_OFF:
                self._crawler.hosts.limiter(host).back_off(until - now)
        self._owned[partition] = Owned(partition, takeover, last, start, self._outbox, self._alone)

    async def revoked(self, partitions: Collection[Partition]) -> None:
        """The group takes these partitions."""
        await self._hand_back(partitions, REVOKE_SECONDS)

    async def _hand_back(self, partitions: Collection[Partition], seconds: float) -> None:
        """Let go of partitions: what waits is dropped, what is under way may end within some time, and is committed."""
        parked = [self._parked.pop(each) for each in partitions if each in self._parked]
        owned = [self._owned[each] for each in partitions if each in self._owned]
        for each in owned:
            each.is_leaving = True
        self._queues.drop(lambda held: held.owned.is_leaving)
        begun = [held for held in self._begun if held.owned in owned]
        for held in begun:
            if held.waits and not held.is_answered and held.task is not None:
                held.task.cancel()
        await _end([held.task for held in begun] + [each.moving for each in parked], seconds)
        await self._crawler.close_idle()
        for each in owned:
            each.note = replace(each.note, clean=True, alone=None)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(each.tell() for each in owned)), BROKER_SECONDS)
        left: tuple[Owned | Parked, ...] = (*owned, *parked)
        if left:
            with contextlib.suppress(Evicted):
                offsets = {each.partition: each.next for each in left}
                await self._consumer.commit(offsets, seconds=BROKER_SECONDS)
        for each in owned:
            self._owned.pop(each.partition, None)

    def _is_ours(self, host: str) -> bool:
        """Whether this worker has the partition of a host."""
        return self._owner(host) is not None

    def _owner(self, host: str) -> Owned | None:
        return self._owned.get(Partition(self.topics.requests.name, partition_of(host.encode(), self._partitions)))

    def _note_rest(self, host: str, seconds: float) -> None:
        """Let the next owner of a host's partition know until when the host rests."""
        owned, now = self._owner(host), self._clock()
        if owned is not None and seconds > REST_NOTED:
            rests = {each: until for each, until in owned.note.rests.items() if until > now}
            owned.note = replace(owned.note, rests={**rests, host: now + seconds})

    # Reading

    async def _read_forever(self) -> None:
        while True:
            self._make_room()
            batches: dict[Owned, list[Record]] = {}
            for record in await self._consumer.poll(seconds=TICK_SECONDS, most=500):
                # Now, since a moment later the partition may have been given to us anew, to be read from elsewhere.
                if (parked := self._parked.get(record.partition)) is not None:
                    parked.waiting.append(record)
                elif (owned := self._owned.get(record.partition)) is not None:
                    batches.setdefault(owned, []).append(record)
            await asyncio.gather(*(self._take(owned, batch) for owned, batch in batches.items()))
            self._begin()

    def _make_room(self) -> None:
        """Read only partitions that we have begun, and of which more can be held."""
        room = [each.partition for each in self._owned.values() if len(each.offsets) < 2 * self._share()]
        room += [each.partition for each in self._parked.values() if len(each.waiting) < self._lookahead]
        mine = self._consumer.assignment()
        self._consumer.resume(mine.intersection(room))
        self._consumer.pause(mine.difference(room))

    def _share(self) -> int:
        """How many requests of one partition are held, if its hosts have many."""
        return max(LEAST_SHARE, self._lookahead // (2 * max(1, len(self._owned))))

    async def _take(self, owned: Owned, records: list[Record]) -> None:
        if not owned.is_leaving:
            await owned.expect(records[-1].offset)
            if not owned.is_leaving:  # as it may be by now
                for record in records:
                    self._admit(owned, record)

    def _admit(self, owned: Owned, record: Record) -> None:
        """Hold a request, or send it where it belongs."""
        owned.offsets.begin(record.offset)
        self.metrics.add("requests_read")
        if record.offset == owned.culprit:
            reason = "worker processes ended while they worked on it, the last one on it alone"
            self._send(owned, record, self._outbox.bury(record, reason))
            return
        try:
            message = RequestMessage.decode(record)
        except Unreadable as problem:
            self._send(owned, record, self._outbox.bury(record, str(problem)))
            return
        host = message.host(self._crawl.doi_resolver)
        if self._owner(host) is not owned:
            self._send(owned, record, self._outbox.route(record, message))
            return
        interval = self._crawler.hosts.limiter(host).interval
        most = MOST_WAITING
        if len(owned.offsets) >= self._share() and interval > 0:
            most = min(max(FEW_WAITING, int(FEW_SECONDS / interval)), MOST_WAITING)
        held = Held(owned, record, message, host)
        wait = self._queues.add(host, held, most=most, now=self._clock(), interval=interval)
        if wait is not None:
            self._send(owned, record, self._outbox.park(record, message, max(wait, WAITS[0])))

    def _send(self, owned: Owned, record: Record, sending: Coroutine[Any, Any, None]) -> None:
        """A request is done once this is sent."""

        async def send() -> None:
            await sending
            owned.offsets.finish(record.offset)

        self._spawn(send())

    # Answering

    def _begin(self) -> None:
        """Begin what may be begun."""
        now = asyncio.get_running_loop().time()
        if self._is_stopping or self._is_lost or now < self._quiet_until or self._is_long_unheard(now):
            return
        while (held := self._queues.begin()) is not None:
            self._begun.add(held)
            held.task = self._spawn(self._answer(held))
            held.task.add_done_callback(functools.partial(self._finished, held))

    def _finished(self, held: Held, task: asyncio.Task[None]) -> None:
        """A request that was begun is over. Not a part of its task, which may be cancelled before its first step."""
        self._begun.discard(held)
        if task.cancelled() and held.is_called_back:
            self._hold_again(held)
        self._queues.finish(held.host)
        self._begin()

    async def _answer(self, held: Held) -> None:
        try:
            async with held.owned.turn(held.record.offset):
                around_waits.set(held.waiting)
                sending = await self._crawl_one(held.record, held.message)
                held.is_answered = True
                await sending
                held.owned.offsets.finish(held.record.offset)
        except StoreError as problem:
            self._hold_again(held)
            self._note_store(problem)

    async def _crawl_one(self, record: Record, message: RequestMessage) -> Coroutine[Any, Any, None]:
        """What is to be sent for a request."""
        delivery = message.delivery
        memory = Memory(_remembered(delivery, self._clock()))
        crawl = self._crawler.ingest(message.request, back_offs=delivery.back_offs, memory=memory)
        try:
            result = await asyncio.wait_for(crawl, self._limit_seconds)
        except PutOff as put_off:
            kept = replace(
                delivery,
                back_offs=delivery.back_offs + put_off.counts,
                memory=_kept(delivery, memory, self._clock()),
                host=put_off.host if isinstance(put_off, Elsewhere) else delivery.host,
            )
            later = replace(message, delivery=kept)
            if isinstance(put_off, Elsewhere):
                return self._outbox.route(record, later)
            return self._outbox.park(record, later, put_off.seconds)
        except StoreError:
            raise
        except Exception as problem:  # noqa: BLE001 - a fault of ours; the request is tried again, then said to be dead
            return self._failed(record, message, problem)
        if result.hit:
            self._store_trouble = None
        return self._outbox.answer(record, result, delivery.ticket)

    async def _failed(self, record: Record, message: RequestMessage, problem: Exception) -> None:
        failures = message.delivery.failures + 1
        log.warning("%s failed: %r", record.place, problem)
        self.metrics.add("failures")
        if failures < MAX_FAILURES:
            again = replace(message, delivery=replace(message.delivery, failures=failures))
            await self._outbox.park(record, again, FAILURE_SECONDS)
            return
        trace = "".join(traceback.format_exception(problem))[-1500:]
        await self._outbox.bury(record, f"failed {failures} times, the last time with {problem!r:.400}\n{trace}")

    # Every half second

    async def _tick_forever(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._queues.forget_promises(self._clock())
            await asyncio.gather(*(owned.tell() for owned in self._owned.values()))
            await self._commit()
            for parked in self._parked.values():
                if parked.is_due(self._clock()) and (parked.moving is None or parked.moving.done()):
                    parked.moving = self._spawn(parked.move(self._outbox, self._clock))

    async def _commit(self) -> None:
        """Commit what is done; also, from time to time, to hear whether the partitions are still ours."""
        loop, session = asyncio.get_running_loop(), self._kafka.session_seconds
        is_due = loop.time() - self._heard > session / 4
        ours: tuple[Owned | Parked, ...] = (*self._owned.values(), *self._parked.values())
        news = {each: each.next for each in ours if is_due or each.next != each.committed}
        if news:
            with contextlib.suppress(Evicted):
                offsets = {each.partition: offset for each, offset in news.items()}
                if await self._consumer.commit(offsets, seconds=max(1.0, session / 4)):
                    self._heard = loop.time()
                    for each, offset in news.items():
                        each.committed = offset
        if self._owned and self._is_long_unheard(loop.time()):
            self._lose()
        elif self._is_lost:
            self._is_lost = False
            self._begin()

    def _is_long_unheard(self, now: float) -> bool:
        return now - self._heard > self._kafka.session_seconds * LOST_AFTER

    def _lose(self) -> None:
        """Ask no host any more: the brokers may have given our partitions to others. What was begun is held again."""
        if not self._is_lost:
            self._is_lost = True
            self._say("Kafka does not say that our partitions are still ours: no host is asked until it does")
        for held in self._begun:
            if held.task is not None and not held.is_answered:
                held.is_called_back = True
                held.task.cancel()  # one that has its result all the same, as it came at this moment, sends it

    def _hold_again(self, held: Held) -> None:
        """Begin a request once more, unless its partition goes to another worker."""
        if not held.owned.is_leaving:
            self._queues.put_back(held.host, held.again())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task whose fault ends the worker."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._fail(problem)

    def _fail(self, problem: BaseException) -> None:
        """End the worker, which raises this."""
        if not self._failure.done():
            self._failure.set_exception(problem)


async def _end(tasks: Collection[asyncio.Task[None] | None], seconds: float) -> None:
    """Let tasks end within some time, and cancel them then."""
    running = [task for task in tasks if task is not None]
    if running:
        await asyncio.wait(running, timeout=seconds)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def _remembered(delivery: Delivery, now: float) -> Callable[[str], Coroutine[Any, Any, Any]]:
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
