"""Workers in virtual time: what waits holds up nothing else, outages and deaths lose nothing, no host is asked by two."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import httpx
import pytest

from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.errors import PutOff, StoreError
from datasette_ingest.ingest.model import IngestRequest
from datasette_ingest.ingest.remote.messages import DeadLetter, Delivery, RequestMessage, ResultMessage
from datasette_ingest.ingest.remote.record import Message, Partition
from datasette_ingest.ingest.remote.routing import partition_of
from datasette_ingest.ingest.remote.settings import KafkaSettings
from datasette_ingest.ingest.remote.topics import topics_of
from datasette_ingest.ingest.remote.worker import Worker
from datasette_ingest.ingest.settings import CrawlSettings

from ... import virtual
from ..origin import PDF
from .memory_kafka import MemoryBrokers, MemoryKafka

KAFKA = KafkaSettings(bootstrap=("memory:1",), partitions=4)
TOPICS = topics_of(KAFKA)
FRESH = Delivery()
QUICK = CrawlSettings(per_host_delay=0.0, robots="ignore")


@dataclass
class Web:
    """The sites: each URL is a PDF after some seconds, unless `answers` says otherwise. Counts who asks what when."""

    clock: Callable[[], float]
    seconds: float = 0.1
    answers: dict[str, Callable[[str], httpx.Response]] = field(default_factory=dict)
    deadly: str = ""
    """The URL with which a process dies that asks for it."""
    asked: list[tuple[str, float]] = field(default_factory=list)
    at_once: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)

    async def answer(self, brokers: MemoryBrokers, request: httpx.Request) -> httpx.Response:
        """:param brokers: those of the process that asks: one that was killed has no connections"""
        if brokers.is_killed:
            await asyncio.Event().wait()
        host, url = request.url.host, str(request.url)
        self.asked.append((url, self.clock()))
        if url == self.deadly:
            brokers.kill()
            await asyncio.Event().wait()
        self.at_once[host] += 1
        self.most[host] = max(self.most[host], self.at_once[host])
        try:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(brokers.killed.wait(), self.seconds)
        finally:
            self.at_once[host] -= 1
        if brokers.is_killed:
            await asyncio.Event().wait()
        if host in self.answers:
            return self.answers[host](url)
        return httpx.Response(200, content=PDF, headers={"content-type": "application/pdf"})

    def times(self, host: str) -> list[float]:
        return [when for url, when in self.asked if url.startswith(f"https://{host}/")]


class Fleet:
    """Topics in memory, sites, and workers, in one virtual time."""

    def __init__(self, clock: virtual.Clock) -> None:
        self.clock = clock
        self.kafka = MemoryKafka(clock)
        for topic in TOPICS.of_worker:
            for number in range(topic.partitions):
                self.kafka.logs[Partition(topic.name, number)] = []
        self.web = Web(clock)
        self.said: list[str] = []

    def send(self, *urls: str, delivery: Delivery = FRESH) -> None:
        for url in urls:
            message = RequestMessage(IngestRequest("pdf", url, "s", "1"), delivery)
            self.kafka.send(TOPICS.requests.name, message.encode(QUICK.doi_resolver))

    @contextlib.asynccontextmanager
    async def working(self, crawl: CrawlSettings = QUICK, **how: Any) -> AsyncIterator[tuple[Worker, MemoryBrokers]]:
        """A worker that works while the block lasts, and its brokers."""
        worker, brokers, stop, running = self.start(crawl, **how)
        try:
            yield worker, brokers
        finally:
            stop.set()
            await running

    def start(
        self, crawl: CrawlSettings = QUICK, *, sinks: Any = (), **how: Any
    ) -> tuple[Worker, MemoryBrokers, asyncio.Event, Any]:
        brokers: Any = self.kafka.brokers()

        def make_crawler(settings: CrawlSettings, **given: Any) -> Crawler:
            return Crawler(settings, transport=self.transport(brokers), sinks=sinks, **given)

        given = {"make_crawler": make_crawler, "clock": self.clock, "say": self.said.append, "brokers": brokers, **how}
        worker, stop = Worker(KAFKA, crawl, **given), asyncio.Event()
        return worker, brokers, stop, asyncio.ensure_future(worker.run(stop))

    def transport(self, brokers: MemoryBrokers) -> httpx.MockTransport:
        return httpx.MockTransport(functools.partial(self.web.answer, brokers))

    def results(self) -> Counter[tuple[str, str]]:
        """(URL, status) of every result."""
        read = [ResultMessage.decode(each)[0] for each in self.kafka.records(TOPICS.results.name)]
        return Counter((document["request"]["base_url"], document["status"]) for document in read)

    def dead(self) -> list[DeadLetter]:
        return [DeadLetter.decode(each) for each in self.kafka.records(TOPICS.dead.name)]

    async def until(self, is_so: Callable[[], bool], seconds: float = 10_000) -> None:
        """Let time pass until it is so."""
        end = asyncio.get_running_loop().time() + seconds
        while not is_so():
            assert asyncio.get_running_loop().time() < end, "it never came to be so"
            await asyncio.sleep(0.05)

    async def answered(self, number: int) -> None:
        """Wait for results of so many requests."""
        at_least = [number]

        def is_so() -> bool:
            count = len(self.kafka.records(TOPICS.results.name))
            if count < at_least[0]:
                return False
            at_least[0] = count + number - len(self.results())
            return at_least[0] <= count

        await self.until(is_so)

    def uncommitted(self) -> int:
        return sum(
            len(log) - self.kafka.committed.get(partition, 0)
            for partition, log in self.kafka.logs.items()
            if partition.topic == TOPICS.requests.name
        )


def urls(host: str, number: int) -> list[str]:
    return [f"https://{host}/{each}.pdf" for each in range(number)]


def test_a_host_that_asks_to_wait_holds_up_no_other_and_is_asked_again_when_its_time_has_come() -> None:
    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)
        busy = [httpx.Response(429, headers={"retry-after": "600"})]
        fine = httpx.Response(200, content=PDF, headers={"content-type": "application/pdf"})
        fleet.web.answers["busy.example"] = lambda url: busy.pop() if busy else fine
        fleet.send("https://busy.example/1.pdf", *urls("quick.example", 20))
        async with fleet.working():
            await fleet.answered(20)
            await fleet.until(lambda: fleet.uncommitted() == 0)
            assert len(fleet.results()) == 20 and clock.elapsed < 30
            await fleet.answered(21)
        first, second = fleet.web.times("busy.example")
        assert 590 <= second - first <= 640
        assert fleet.results()["https://busy.example/1.pdf", "success"] == 1

    virtual.run(main)


def test_a_host_that_never_has_time_is_answered_rate_limited_as_in_a_local_run() -> None:
    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)
        fleet.web.answers["busy.example"] = lambda url: httpx.Response(429, headers={"retry-after": "300"})
        fleet.send("https://busy.example/1.pdf")
        async with fleet.working():
            await fleet.answered(1)
        assert fleet.results() == {("https://busy.example/1.pdf", "rate-limited"): 1}
        assert len(fleet.web.asked) == 4

    virtual.run(main)


def test_many_requests_for_one_host_hold_up_no_other_host_of_their_partition() -> None:
    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)
        partition = partition_of(b"large.example", KAFKA.partitions)
        others = [f"h{n}.example" for n in range(99) if partition_of(b"h%d.example" % n, KAFKA.partitions) == partition]
        fleet.send(*urls("large.example", 600), *(f"https://{host}/p.pdf" for host in others))
        async with fleet.working(replaced(per_host_delay=1.0), lookahead=400):
            await fleet.until(lambda: all(fleet.web.times(host) for host in others), seconds=60)
            await fleet.answered(600 + len(others))
        assert sum(fleet.results().values()) == 600 + len(others)
        starts = fleet.web.times("large.example")
        assert min(b - a for a, b in pairwise(starts)) >= 0.99
        assert starts[-1] - starts[0] < 600 * 1.2, "the host is not left idle for long"

    virtual.run(main)


def test_several_hosts_with_many_requests_are_all_kept_at_their_pace() -> None:
    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)
        partition = partition_of(b"large.example", KAFKA.partitions)
        named = (f"h{n}.example" for n in range(99))
        hosts = [host for host in named if partition_of(host.encode(), KAFKA.partitions) == partition][:8]
        fleet.send(*(url for batch in zip(*(urls(host, 150) for host in hosts), strict=True) for url in batch))
        async with fleet.working(replaced(per_host_delay=0.5), lookahead=400):
            await fleet.answered(8 * 150)
        for host in hosts:
            starts = fleet.web.times(host)
            assert starts[-1] - starts[0] < 150 * 0.5 * 1.4, host

    virtual.run(main)


def replaced(**changed: Any) -> CrawlSettings:
    return QUICK.model_copy(update=changed)


def test_workers_that_come_and_go_lose_nothing_and_never_ask_a_host_together() -> None:
    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)
        fleet.web.seconds = 1.0
        hosts = [f"h{n}.example" for n in range(16)]
        sent = [url for host in hosts for url in urls(host, 12)]
        fleet.send(*sent)
        async with fleet.working() as (one, _):
            await fleet.answered(20)
            async with fleet.working() as (two, _):
                await fleet.answered(60)
                assert (one.workers(), two.workers()) == (2, 2)
                async with fleet.working() as (_, brokers):
                    await fleet.answered(90)
                    brokers.kill()
                    await fleet.kafka.rebalance()
                await fleet.answered(120)
            await fleet.answered(len(sent))
        assert {url for url, _ in fleet.results()} == set(sent)
        assert max(fleet.web.most.values()) <= QUICK.per_host_concurrency

    virtual.run(main)


def test_what_is_read_before_a_partition_is_begun_is_read_again_from_where_the_group_has_committed() -> None:
    """A client fetches as soon as the group gives it partitions; a worker begins them only once it has asked for more."""

    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)
        fleet.kafka.tells_late = True
        sent = urls("a.example", 600)  # more than one read
        fleet.send(*sent)
        parked = RequestMessage(IngestRequest("pdf", "https://later.example/1.pdf", "s", "1"), Delivery(not_before=60))
        for _ in range(1200):
            fleet.kafka.append(Partition(TOPICS.later.name, 5), parked.encode(QUICK.doi_resolver))
        async with fleet.working(replaced(per_host_concurrency=8)) as (worker, _):
            for _ in range(3):
                await asyncio.sleep(3)
                await fleet.kafka.rebalance()
            await asyncio.sleep(3)
            assert len(worker._parked[Partition(TOPICS.later.name, 5)].waiting) == 1200
            await fleet.answered(len(sent))

    virtual.run(main)


def test_a_worker_that_hears_nothing_from_the_brokers_asks_no_host_until_it_does() -> None:
    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)
        fleet.web.seconds = 3.0
        sent = urls("a.example", 40)
        fleet.send(*sent)
        async with fleet.working() as (worker, _):
            await fleet.answered(4)
            fleet.kafka.is_down, since = True, clock()
            await asyncio.sleep(60)
            assert worker.metrics.trouble() == "Kafka cannot be reached"
            fleet.kafka.is_down = False
            await fleet.answered(40)
        silent = [when for _, when in fleet.web.asked if since + KAFKA.session_seconds < when < since + 60]
        assert silent == []
        assert {url for url, _ in fleet.results()} == set(sent)
        assert any("no host is asked until it does" in sentence for sentence in fleet.said)

    virtual.run(main)


def test_a_worker_that_ends_no_request_for_a_minute_says_what_each_waits_for() -> None:
    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)
        fleet.web.seconds = 100.0
        fleet.send(*urls("slow.example", 20), "https://other.example/1.pdf")
        async with fleet.working(replaced(timeout=300.0, deadline=400.0, per_host_concurrency=1)) as (worker, _):
            await asyncio.sleep(50)
            assert worker.metrics.trouble() is None
            await asyncio.sleep(40)
            trouble = worker.metrics.trouble()
            assert trouble is not None and trouble.startswith("No progress for ")
            assert "2 are at work or wait for suspects to end (other.example, slow.example)" in trouble
            assert "3 wait for a turn at a host, a slot or a process (slow.example)" in trouble
            assert "16 wait until others of their hosts have ended" in trouble
            fleet.web.seconds = 0.1
            await asyncio.sleep(30)
            assert worker.metrics.trouble() is None
        assert sum(sentence.startswith("No progress for 60 s: 2 are") for sentence in fleet.said) == 1
        assert "It goes on" in fleet.said

    virtual.run(main)


def test_a_worker_says_when_the_group_takes_its_partitions_and_gives_none() -> None:
    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)
        async with fleet.working() as (worker, brokers):
            await asyncio.sleep(100)
            assert worker.metrics.trouble() is None, "it has nothing to do"
            assert brokers.member is not None
            await worker.revoked(list(brokers.member.mine))
            await asyncio.sleep(70)
            assert "the group has taken our partitions and not given others" in str(worker.metrics.trouble())
            await worker.assigned(list(brokers.member.mine))
            await asyncio.sleep(10)
            assert worker.metrics.trouble() is None

    virtual.run(main)


def test_a_request_that_is_called_back_at_any_step_is_answered_once_and_its_host_goes_on() -> None:
    """Called back before its task's first step, while it waits, and in the step in which its result has come."""

    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)
        sent = urls("a.example", 60)
        fleet.send(*sent)
        async with fleet.working() as (worker, _):
            begin, steps = worker._begin, itertools.count()

            def begin_and_lose() -> None:
                begin()
                if next(steps) in (0, 3, 7):
                    worker._lose()

            worker._begin = begin_and_lose  # type: ignore[method-assign]
            crawl_one = worker._crawl_one

            async def crawl_and_lose(*given: Any) -> Any:
                sending = await crawl_one(*given)
                if next(steps) in (20, 30):
                    asyncio.get_running_loop().call_soon(worker._lose)
                    with contextlib.suppress(asyncio.CancelledError):  # as wait_for of Python 3.11 does
                        await asyncio.sleep(1)
                return sending

            worker._crawl_one = crawl_and_lose  # type: ignore[method-assign]
            await fleet.answered(60)
            await fleet.until(lambda: fleet.uncommitted() == 0)
            assert not worker._begun and not list(worker._queues)
        assert set(fleet.results().values()) == {1}

    virtual.run(main)


def test_a_request_with_which_workers_die_ends_in_the_dead_topic_and_no_other_does() -> None:
    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)
        deadly, deaths = "https://deadly.example/7.pdf", 0
        fleet.web.deadly = deadly
        sent = [*urls("deadly.example", 9), *urls("other.example", 9), *urls("third.example", 9)]
        fleet.send(*sent)
        while not fleet.dead():
            async with fleet.working() as (_, brokers):
                await fleet.until(lambda: brokers.is_killed or bool(fleet.dead()))
                deaths += brokers.is_killed
        async with fleet.working():
            await fleet.answered(len(sent) - 1)
        (letter,) = fleet.dead()
        assert deadly in letter.message and "worker processes ended while they worked on it" in letter.reason
        assert deaths == 3
        assert {url for url, _ in fleet.results()} == {*sent} - {deadly}

    virtual.run(main)


def test_a_fault_of_ours_is_tried_three_times_and_then_dead_with_its_reason() -> None:
    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)

        def fail(url: str) -> httpx.Response:
            raise RuntimeError("a fault of ours")

        fleet.web.answers["odd.example"] = fail
        fleet.send("https://odd.example/1.pdf", delivery=Delivery(ticket="t9"))
        fleet.send("https://a.example/1.pdf")
        async with fleet.working():
            await fleet.until(lambda: bool(fleet.dead()))
        (letter,) = fleet.dead()
        assert len(fleet.web.times("odd.example")) == 3
        assert "failed 3 times" in letter.reason and "a fault of ours" in letter.reason and letter.ticket == "t9"
        assert fleet.results() == {("https://a.example/1.pdf", "success"): 1}

    virtual.run(main)


def test_a_worker_that_is_told_to_end_does_so_within_ten_seconds_and_hands_back_the_rest() -> None:
    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)
        fleet.web.seconds = 25.0
        sent = urls("slow.example", 6)
        fleet.send(*sent)
        _, _, stop, running = fleet.start()
        await fleet.until(lambda: bool(fleet.web.asked))
        told = clock.elapsed
        stop.set()
        await running
        assert clock.elapsed - told < 10 and not fleet.results()
        fleet.web.seconds = 0.1
        async with fleet.working():
            await fleet.answered(6)
        assert not any("without handing back" in sentence for sentence in fleet.said)

    virtual.run(main)


def test_the_next_owner_of_a_partition_knows_which_hosts_rest() -> None:
    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)
        fleet.web.answers["busy.example"] = lambda url: httpx.Response(429, headers={"retry-after": "900"})
        fleet.send("https://busy.example/1.pdf")
        async with fleet.working():
            await fleet.until(lambda: bool(fleet.kafka.records(TOPICS.later.name)))
            await asyncio.sleep(1)
        del fleet.web.answers["busy.example"]
        fleet.send("https://busy.example/2.pdf")
        async with fleet.working():
            await fleet.answered(2)
        first, *later = fleet.web.times("busy.example")
        assert min(later) - first >= 890

    virtual.run(main)


def test_a_request_under_another_key_goes_to_the_partition_of_its_host() -> None:
    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)
        right = RequestMessage(IngestRequest("pdf", "https://a.example/1.pdf", "s", "1")).encode(QUICK.doi_resolver)
        wrong = partition_of(b"a.example", KAFKA.partitions) ^ 1
        fleet.kafka.append(Partition(TOPICS.requests.name, wrong), replace(right, key=b"https://a.example/1.pdf"))
        async with fleet.working() as (worker, _):
            await fleet.answered(1)
            assert worker.metrics.total("requests_routed") == 1
        (moved,) = fleet.kafka.logs[Partition(TOPICS.requests.name, wrong ^ 1)]
        assert moved.key == b"a.example"

    virtual.run(main)


def test_what_a_source_remembers_goes_with_a_request_that_is_put_off() -> None:
    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)
        found: list[Any] = []

        class Remembering(Crawler):
            async def ingest(self, request: IngestRequest, **how: Any) -> Any:
                memory = how["memory"]
                found.append((await memory.get("capture"), how["back_offs"]))
                if len(found) < 3:
                    memory.keep("capture", {"try": len(found)}, seconds=3600)
                    raise PutOff(40.0, "being captured", counts=False)
                memory.forget("capture")
                return await super().ingest(request, **how)

        def make_crawler(settings: CrawlSettings, **given: Any) -> Crawler:
            return Remembering(settings, transport=fleet.transport(fleet.kafka.brokers()), **given)

        fleet.send("https://a.example/1.pdf", delivery=Delivery(ticket="t", back_offs=1))
        async with fleet.working(make_crawler=make_crawler):
            await fleet.answered(1)
        assert found == [(None, 1), ({"try": 1}, 1), ({"try": 2}, 1)]
        (record,) = fleet.kafka.records(TOPICS.results.name)
        assert ResultMessage.decode(record)[1] == "t"

    virtual.run(main)


def test_a_parked_message_that_cannot_be_read_is_dead_and_those_after_it_go_on() -> None:
    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)
        good = RequestMessage(IngestRequest("pdf", "https://a.example/1.pdf", "s", "1")).encode(QUICK.doi_resolver)
        shortest = Partition(TOPICS.later.name, 0)
        fleet.kafka.append(shortest, Message(b"a.example", good.value, {"ingest-not-before": b"soon"}))
        fleet.kafka.append(shortest, good)
        async with fleet.working():
            await fleet.answered(1)
        (letter,) = fleet.dead()
        assert (letter.topic, letter.offset) == (TOPICS.later.name, 0)

    virtual.run(main)


def redirect(location: str, **headers: str) -> httpx.Response:
    return httpx.Response(302, headers={"location": location, **headers})


def test_a_redirect_to_a_host_of_another_worker_is_followed_by_that_one_and_the_result_is_as_of_a_local_run() -> None:
    chain = {
        "doi.example": lambda url: redirect("https://b.example/1", **{"set-cookie": "a=1; Path=/"}),
        "b.example": lambda url: redirect("https://c.example/2", **{"set-cookie": "b=2"}),
        "c.example": lambda url: redirect("https://b.example/back") if url.endswith("2") else httpx.Response(200),
    }
    sent = ["10.1234/x", "https://b.example/1", "https://loop.example/"]

    async def main(clock: virtual.Clock) -> None:
        crawl = replaced(doi_resolver="https://doi.example/")
        local, fleet = Fleet(clock), Fleet(clock)
        for each in (local, fleet):
            each.web.answers.update(chain)
            back = iter([redirect("https://a.example/landed.pdf")] * 9)
            each.web.answers["b.example"] = lambda url, back=back: (
                next(back) if url.endswith("back") else chain["b.example"](url)
            )
            each.web.answers["loop.example"] = lambda url: redirect("https://a-loop.example/")
            each.web.answers["a-loop.example"] = lambda url: redirect("https://loop.example/")
        local.send(*sent)
        async with local.working(crawl) as (alone, _):
            await local.answered(len(sent))
            assert alone.metrics.total("requests_routed") == 1, "the DOI was keyed for another resolver"
        async with fleet.working(crawl) as (one, _), fleet.working(crawl) as (two, _):
            await fleet.until(lambda: (one.workers(), two.workers()) == (2, 2))
            fleet.send(*sent)
            await fleet.answered(len(sent))
            assert one.metrics.total("requests_routed") + two.metrics.total("requests_routed") > 3
        assert documents(fleet) == documents(local)
        assert {each["status"] for each in documents(fleet)} == {"success", "redirect-loop"}
        assert sorted(url for url, _ in fleet.web.asked) == sorted(url for url, _ in local.web.asked)

    virtual.run(main)


def documents(fleet: Fleet) -> list[dict[str, Any]]:
    """The results without their times, sorted."""
    read = [ResultMessage.decode(each)[0] for each in fleet.kafka.records(TOPICS.results.name)]
    for each in read:
        del each["updated"], each["terminal"]["terminal_dt"]
    return sorted(read, key=lambda each: str(each["request"]["base_url"]))


class Shelf:
    """A sink that fails so often, and then keeps."""

    def __init__(self, failures: int, *, passes: bool) -> None:
        self.failures = failures
        self.passes = passes
        self.kept: list[str] = []

    async def keep(self, kind: str, sha1hex: str, mimetype: str, content: Any) -> None:
        if self.failures:
            self.failures -= 1
            raise StoreError("The store s3://bodies cannot be written", passes=self.passes)
        self.kept.append(sha1hex)

    async def aclose(self) -> None: ...


def test_while_files_cannot_be_kept_no_host_is_asked_and_nothing_is_lost() -> None:
    async def main(clock: virtual.Clock) -> None:
        fleet, shelf = Fleet(clock), Shelf(3, passes=True)
        fleet.send(*urls("a.example", 3))
        async with fleet.working(replaced(per_host_concurrency=1), sinks=[shelf]) as (worker, _):
            await fleet.until(lambda: shelf.failures == 0)
            await asyncio.sleep(50)
            assert worker.metrics.trouble() == "The store s3://bodies cannot be written"
            assert len(fleet.web.asked) == 3
            await fleet.answered(3)
            assert worker.metrics.trouble() is None
        assert set(fleet.results().values()) == {1} and not fleet.dead()
        assert fleet.said.count("The store s3://bodies cannot be written. Waiting for it; nothing is lost") == 1

    virtual.run(main)


def test_a_store_that_a_person_must_mend_ends_the_worker_which_hands_back() -> None:
    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)
        fleet.send("https://a.example/1.pdf")
        _, _, _, running = fleet.start(sinks=[Shelf(1, passes=False)])
        with pytest.raises(StoreError, match="cannot be written"):
            await running
        async with fleet.working(sinks=[Shelf(0, passes=False)]):
            await fleet.answered(1)
        assert not any("without handing back" in sentence for sentence in fleet.said)

    virtual.run(main)


def test_a_worker_whom_the_group_has_given_up_asks_no_host_when_others_do() -> None:
    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)
        fleet.web.seconds = 2.5
        sent = [url for n in range(8) for url in urls(f"h{n}.example", 8)]
        fleet.send(*sent)
        async with fleet.working() as (_, gone), fleet.working():
            await fleet.answered(6)
            assert gone.member is not None
            gone.member.is_lost = True
            await asyncio.sleep(KAFKA.session_seconds)
            await fleet.kafka.rebalance()
            await fleet.answered(30)
            await gone.member.listener.revoked(list(gone.member.mine))
            gone.member.is_lost = False  # it is heard again, and joins as a new member
            await fleet.kafka.rebalance()
            await fleet.answered(len(sent))
        assert {url for url, _ in fleet.results()} == set(sent)
        assert max(fleet.web.most.values()) <= QUICK.per_host_concurrency

    virtual.run(main)


def test_a_row_with_too_many_cookies_to_hand_on_is_finished_where_it_is() -> None:
    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)
        large = [("set-cookie", f"c{n}={'x' * 4000}") for n in range(40)]
        fleet.web.answers["a.example"] = lambda url: httpx.Response(
            302, headers=[("location", "https://b.example/1.pdf"), *large]
        )
        fleet.send("https://a.example/")
        async with fleet.working() as (one, _), fleet.working() as (two, _):
            await fleet.answered(1)
            assert one.metrics.total("requests_routed") + two.metrics.total("requests_routed") == 0
        assert fleet.results() == {("https://a.example/", "success"): 1}

    virtual.run(main)


def test_hosts_that_only_links_lead_to_are_shared_by_all_workers() -> None:
    async def main(clock: virtual.Clock) -> None:
        fleet = Fleet(clock)
        page = (
            b"<html><head><meta name=citation_pdf_url content=https://cdn.example/%d.pdf></head><body>x</body></html>"
        )
        hosts = [f"h{n}.example" for n in range(12)]
        for n, host in enumerate(hosts):
            html = httpx.Response(200, content=page % n, headers={"content-type": "text/html"})
            fleet.web.answers[host] = lambda url, html=html: html  # type: ignore[misc]
        async with fleet.working(replaced(per_host_delay=1.0)), fleet.working(replaced(per_host_delay=1.0)):
            await asyncio.sleep(5)
            fleet.send(*(f"https://{host}/" for host in hosts))
            await fleet.answered(12)
        times = fleet.web.times("cdn.example")
        assert len(times) == 12 and {status for _, status in fleet.results()} == {"success"}
        assert times[-1] - times[0] >= 6, "at most twice the pace of one worker"

    virtual.run(main)
