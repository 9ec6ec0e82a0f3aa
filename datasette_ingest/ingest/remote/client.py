"""Kafka as this package needs it, and no more: the one place that knows aiokafka.

While brokers cannot be reached, sending and reading wait and try again; `say` is told so, and again when they are back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from aiokafka import errors as kafka_errors
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.helpers import create_ssl_context

from .record import Message, Partition, Record
from .routing import partition_of
from .settings import KafkaSettings
from .topics import MAX_RESULT_BYTES, MIB, Topic

T = TypeVar("T")

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""Between two tries to reach the brokers."""
REQUEST_SECONDS = 10.0
"""How long brokers may take to answer."""
STOP_SECONDS = 1.5
"""How long it may take to leave them."""
CUT_SECONDS = 0.25
"""How long it may take to close connections after that."""
MOST_EMPTY = 4
"""After so many polls without a message, none is where one should be."""
_EXISTS = 36
"""Kafka's error code TOPIC_ALREADY_EXISTS."""
_ABSENT = (
    OSError,
    asyncio.TimeoutError,
    kafka_errors.KafkaConnectionError,
    kafka_errors.KafkaTimeoutError,
    kafka_errors.RequestTimedOutError,
    kafka_errors.NodeNotReadyError,
)
_REFUSED = (
    kafka_errors.AuthenticationFailedError,
    kafka_errors.SaslAuthenticationFailed,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.TopicAuthorizationFailedError,
    kafka_errors.GroupAuthorizationFailedError,
    kafka_errors.ClusterAuthorizationFailedError,
)


class KafkaRefused(Exception):
    """The brokers refuse what we ask; waiting does not help. The sentence says what to do."""


class TooLarge(Exception):
    """The brokers do not take a message of this size."""


class Evicted(Exception):
    """The group has given our partitions to others, or is about to: nothing was committed."""


class Listener(Protocol):
    """Is told when partitions come and go. Both are awaited before the group goes on."""

    async def revoked(self, partitions: Collection[Partition]) -> None: ...

    async def assigned(self, partitions: Collection[Partition]) -> None: ...


class Brokers:
    """The brokers of one configuration.

    :param say: is told in a sentence when they cannot be reached, and when they can again
    :raises KafkaRefused: for certificates that cannot be read
    """

    def __init__(self, settings: KafkaSettings, *, say: Callable[[str], None] = log.warning) -> None:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # a line for every try; we say it once
        self._settings = settings
        self._say = say
        self.unreachable_since: float | None = None
        """Since when they cannot be reached, by time.monotonic; None while they can."""
        secret = settings.sasl_password
        self._connection: dict[str, Any] = {
            "bootstrap_servers": list(settings.bootstrap),
            "request_timeout_ms": int(REQUEST_SECONDS * 1000),
            "retry_backoff_ms": 200,
            "client_id": "datasette-ingest",
            "security_protocol": settings.security_protocol,
            "ssl_context": _ssl_context(settings),
        }
        if settings.security_protocol.startswith("SASL"):
            self._connection |= {
                "sasl_mechanism": settings.sasl_mechanism,
                "sasl_plain_username": settings.sasl_username,
                "sasl_plain_password": None if secret is None else secret.get_secret_value(),
            }

    async def persist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """What the attempt returns, tried again while the brokers cannot be reached.

        :raises KafkaRefused: when they refuse it
        """
        while True:
            try:
                found = await attempt()
            except _ABSENT as problem:
                self.note_absent(problem)
            except _REFUSED as problem:
                raise KafkaRefused(_refusal(problem)) from None
            except kafka_errors.KafkaError as problem:
                if not problem.retriable:
                    raise KafkaRefused(f"Kafka refuses: {_text(problem)}") from problem
                self.note_absent(problem)
            else:
                self.note_present()
                return found
            await asyncio.sleep(RETRY_SECONDS)

    def note_absent(self, problem: BaseException) -> None:
        if self.unreachable_since is None:
            self.unreachable_since = time.monotonic()
            self._say(
                f"Kafka cannot be reached at {', '.join(self._settings.bootstrap)} ({_text(problem)}). Waiting for it; "
                "nothing is lost"
            )

    def note_present(self) -> None:
        if self.unreachable_since is not None:
            seconds = time.monotonic() - self.unreachable_since
            self.unreachable_since = None
            self._say(f"Kafka is back after {seconds:.0f} s")

    async def make_topics(self, topics: Iterable[Topic]) -> dict[str, int]:
        """Make those of the topics that are missing, and return how many partitions each of them has.

        :raises KafkaRefused: where one is missing and may not be made
        """
        wanted = {topic.name: topic for topic in topics}

        async def make() -> dict[str, int]:
            async with self._admin() as admin:
                missing = [wanted[name] for name in sorted(wanted.keys() - set(await admin.list_topics()))]
                if missing and not self._settings.create_topics:
                    raise KafkaRefused(
                        f"Kafka has no topic {missing[0].name}, and kafka.create_topics is false. Make it with "
                        f"{missing[0].partitions} partitions"
                    )
                if missing:
                    await self._create(admin, missing)
                return await _counts(admin, wanted)

        counts = await self.persist(make)
        while not all(counts.get(name) for name in wanted):  # brokers learn of new topics one by one
            await asyncio.sleep(RETRY_SECONDS)
            counts = await self.persist(make)
        return counts

    @contextlib.asynccontextmanager
    async def _admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        admin = AIOKafkaAdminClient(**self._connection)
        await _start(admin.start, admin.close, admin._client)
        try:
            yield admin
        finally:
            await _close(admin.close, admin._client)

    async def _create(self, admin: AIOKafkaAdminClient, missing: list[Topic]) -> None:
        new = [
            NewTopic(topic.name, topic.partitions, self._settings.replication, topic_configs=dict(topic.config))
            for topic in missing
        ]
        response = await admin.create_topics(new)
        for name, code, *message in response.topic_errors:
            if code not in (0, _EXISTS):
                said = next((text for text in message if text), None) or kafka_errors.for_code(code).__name__
                raise KafkaRefused(f"Kafka does not make the topic {name}: {said}")

    @contextlib.asynccontextmanager
    async def producer(self) -> AsyncIterator[Producer]:
        """A Producer, closed at the end of the block."""
        inner = await self.persist(self._start_producer)
        try:
            yield Producer(self, inner)
        finally:
            await _close(inner.stop, inner.client)

    async def _start_producer(self) -> AIOKafkaProducer:
        inner = AIOKafkaProducer(
            **self._connection,
            acks="all",
            compression_type="zstd",
            linger_ms=20,
            max_request_size=MAX_RESULT_BYTES + MIB,
        )
        await _start(inner.start, inner.stop, inner.client)
        return inner

    @contextlib.asynccontextmanager
    async def consumer(
        self, topics: Iterable[str], *, group: str | None = None, listener: Listener | None = None
    ) -> AsyncIterator[Consumer]:
        """A Consumer of these topics, closed at the end of the block.

        :param group: shares the partitions among its members and keeps what they commit. Without one the consumer has
            all partitions, from their beginning, and the caller seeks
        :param listener: is told of partitions that come and go; only with a group
        """
        names = list(topics)
        inner = await self.persist(lambda: self._start_consumer(names, group, listener))
        consumer = Consumer(self, inner)
        try:
            yield consumer
        finally:
            await _close(inner.stop, inner._client, inner._fetcher)

    async def _start_consumer(self, names: list[str], group: str | None, listener: Listener | None) -> AIOKafkaConsumer:
        session = int(self._settings.session_seconds * 1000)
        inner = AIOKafkaConsumer(
            **self._connection,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=session,
            heartbeat_interval_ms=max(300, session // 6),
            max_poll_interval_ms=24 * 3600 * 1000,  # we read on only when there is room
            rebalance_timeout_ms=max(session, 15_000),
            max_partition_fetch_bytes=2 * MIB,
            fetch_max_wait_ms=250,
        )
        if group is not None:
            inner.subscribe(names, listener=_Bridge(listener) if listener is not None else None)
        await _start(inner.start, inner.stop, inner._client)
        if group is None:
            try:
                async with self._admin() as admin:
                    counts = await _counts(admin, names)
                inner.assign([TopicPartition(name, each) for name in names for each in range(counts[name])])
                await inner.seek_to_beginning()
            except BaseException:
                await _close(inner.stop, inner._client, inner._fetcher)
                raise
        return inner

    async def last_messages(self, topic: str) -> dict[int, Record]:
        """The last message of each partition of a topic that has one, by the partition's number."""
        async with self.consumer([topic]) as consumer:
            starts = {partition: end - 1 for partition, end in (await consumer.ends()).items() if end > 0}
            found: dict[int, Record] = {}
            back, empty = 1, 0
            for partition, start in starts.items():
                consumer.seek(partition, start)
            while starts:
                records = await consumer.poll(seconds=0.5, most=1000)
                for record in records:
                    found[record.partition.number] = record
                    starts.pop(record.partition, None)
                empty = 0 if records or self.unreachable_since is not None else empty + 1
                if empty >= MOST_EMPTY:  # brokers may not know their ends well, and the last offset may be no message's
                    starts = {partition: start for partition, start in starts.items() if start > 0}
                    back, empty = 10 * back, 0
                    for partition, start in starts.items():
                        starts[partition] = max(0, start - back)
                        consumer.seek(partition, starts[partition])
            return found


class Producer:
    """Sends messages. Each is acknowledged by all replicas before `send` returns."""

    def __init__(self, brokers: Brokers, inner: AIOKafkaProducer) -> None:
        self._brokers = brokers
        self._inner = inner

    async def send(self, topic: str, message: Message, *, partition: int | None = None) -> None:
        """Send a message, and wait until it is stored. Sent again if it is not known whether it was.

        :param partition: instead of that of the key
        :raises TooLarge: for a message that the brokers do not take
        """

        async def attempt() -> None:
            number = partition
            if number is None:
                number = partition_of(message.key, len(await self._inner.partitions_for(topic)))
            await self._inner.send_and_wait(
                topic, message.value, key=message.key, headers=list(message.headers.items()), partition=number
            )

        try:
            await self._brokers.persist(attempt)
        except KafkaRefused as refused:
            if isinstance(refused.__cause__, kafka_errors.MessageSizeTooLargeError):
                raise TooLarge(f"a message of {len(message.value or b''):,} bytes is too large for {topic}") from None
            raise


class Consumer:
    """Reads messages, and commits how far they are done."""

    def __init__(self, brokers: Brokers, inner: AIOKafkaConsumer) -> None:
        self._brokers = brokers
        self._inner = inner

    async def poll(self, *, seconds: float, most: int) -> list[Record]:
        """The next messages of the partitions that are not paused; none after so many seconds without any."""
        try:
            batches = await self._inner.getmany(timeout_ms=int(seconds * 1000), max_records=most)
        except _REFUSED as problem:
            raise KafkaRefused(_refusal(problem)) from None
        except kafka_errors.KafkaError as problem:
            self._brokers.note_absent(problem)
            await asyncio.sleep(seconds)
            return []
        return [_record(each) for batch in batches.values() for each in batch]

    async def commit(self, offsets: Mapping[Partition, int], *, seconds: float = REQUEST_SECONDS) -> bool:
        """Commit the offsets of the next messages to read. False if the brokers did not answer in time.

        :raises Evicted: when the group has given the partitions to others
        """
        given = {TopicPartition(*partition): OffsetAndMetadata(offset, "") for partition, offset in offsets.items()}
        try:
            await asyncio.wait_for(self._inner.commit(given), seconds)
        except (kafka_errors.CommitFailedError, kafka_errors.IllegalStateError) as problem:
            raise Evicted(_text(problem)) from None
        except _ABSENT as problem:
            self._brokers.note_absent(problem)
            return False
        except kafka_errors.KafkaError as problem:
            if problem.retriable:
                self._brokers.note_absent(problem)
                return False
            raise Evicted(_text(problem)) from None
        self._brokers.note_present()
        return True

    async def committed(self, partition: Partition) -> int | None:
        """The offset that the group has committed; None if it has none."""
        found: int | None = await self._brokers.persist(lambda: self._inner.committed(TopicPartition(*partition)))
        return found

    async def position(self, partition: Partition) -> int:
        """The offset of the next message that is read."""
        found: int = await self._inner.position(TopicPartition(*partition))
        return found

    async def beginnings(self) -> dict[Partition, int]:
        """The offset of the first message of each partition that we have."""
        mine = self._inner.assignment()
        found = await self._brokers.persist(lambda: self._inner.beginning_offsets(mine))
        return {Partition(*each): offset for each, offset in found.items()}

    async def ends(self) -> dict[Partition, int]:
        """The offset after the last message of each partition that we have."""
        mine = self._inner.assignment()
        found = await self._brokers.persist(lambda: self._inner.end_offsets(mine))
        return {Partition(*each): offset for each, offset in found.items()}

    def assignment(self) -> set[Partition]:
        """The partitions that we have."""
        return {Partition(*each) for each in self._inner.assignment()}

    def seek(self, partition: Partition, offset: int) -> None:
        """Read on from this offset."""
        self._inner.seek(TopicPartition(*partition), offset)

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Do not read these until they are resumed."""
        self._inner.pause(*(TopicPartition(*each) for each in partitions))

    def resume(self, partitions: Iterable[Partition]) -> None:
        self._inner.resume(*(TopicPartition(*each) for each in partitions))


class _Bridge(ConsumerRebalanceListener):  # type: ignore[misc]
    """A Listener as aiokafka calls it."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        await self._listener.revoked([Partition(*each) for each in revoked])

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        await self._listener.assigned([Partition(*each) for each in assigned])


def _record(each: Any) -> Record:
    return Record(
        Partition(each.topic, each.partition),
        each.offset,
        each.key,
        each.value,
        dict(each.headers),
        each.timestamp / 1000,
    )


async def _start(start: Callable[[], Awaitable[None]], stop: Callable[[], Awaitable[None]], client: Any) -> None:
    """Start a producer, a consumer or an admin client; close it where that fails.

    aiokafka forgets a connection whose start is cancelled. So a cancellation waits for it, for a while.
    """
    starting = asyncio.ensure_future(start())
    try:
        await asyncio.shield(starting)
    except BaseException:
        await _wait_anyway(starting, STOP_SECONDS)
        starting.cancel()
        await _close(stop, client)
        raise


async def _close(stop: Callable[[], Awaitable[None]], client: Any, fetcher: Any = None) -> None:
    """Leave the brokers, and close the connections where they do not answer. A cancellation waits for that.

    aiokafka forgets a connection that is being made when it is told to stop, so it is not told so then. Where it does
    not stop in time, its fetcher goes on, and is closed by itself. The second `stop` is
    for where the task of the first was cancelled before it began, as when an event loop ends; otherwise it has nothing to do.
    """

    async def stop_between_connections() -> None:
        async with client._get_conn_lock:
            await stop()

    cancelled = await _run(stop_between_connections, STOP_SECONDS)
    for step in (stop, *([] if fetcher is None else [fetcher.close]), client.close):
        cancelled = await _run(step, CUT_SECONDS) or cancelled
    if cancelled is not None:
        raise cancelled


async def _run(step: Callable[[], Awaitable[None]], seconds: float) -> asyncio.CancelledError | None:
    """Run a step of closing for so long, whether it fails or not, also where we are cancelled meanwhile: then the
    cancellation."""
    task = asyncio.ensure_future(step())
    cancelled = await _wait_anyway(task, seconds)
    task.cancel()
    return cancelled


async def _wait_anyway(task: asyncio.Future[Any], seconds: float) -> asyncio.CancelledError | None:
    """Wait until the task is done or the time is over, also where we are cancelled meanwhile: then the cancellation."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # which is of no interest
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError as cancelled:
        await _wait_anyway(task, seconds)
        return cancelled
    return None


async def _counts(admin: AIOKafkaAdminClient, topics: Iterable[str]) -> dict[str, int]:
    """How many partitions each of the topics has."""
    return {each["topic"]: len(each["partitions"]) for each in await admin.describe_topics(sorted(topics))}


def _ssl_context(settings: KafkaSettings) -> ssl.SSLContext | None:
    if settings.security_protocol not in ("SSL", "SASL_SSL"):
        return None
    secret = settings.ssl_key_password
    try:
        context: ssl.SSLContext = create_ssl_context(
            cafile=settings.ssl_cafile,
            certfile=settings.ssl_certfile,
            keyfile=settings.ssl_keyfile,
            password=None if secret is None else secret.get_secret_value(),
        )
    except (OSError, ssl.SSLError) as problem:
        raise KafkaRefused(f"The certificates of the setting kafka cannot be read: {problem}") from None
    return context


def _refusal(problem: BaseException) -> str:
    return f"Kafka does not let us in: {_text(problem)}. Check the user, its password and its rights"


def _text(problem: BaseException) -> str:
    """What the library says, for a person."""
    text = str(problem).removeprefix(f"{type(problem).__name__}: ")
    return "no broker answers" if text.startswith("Unable to bootstrap") else text or type(problem).__name__
