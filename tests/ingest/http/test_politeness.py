"""The queue before one host: its pace, its rests, who is put off and until when. In virtual time."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from datasette_ingest.ingest.errors import PutOff
from datasette_ingest.ingest.http.politeness import (
    MAX_DELAY,
    NOTICE_SECONDS,
    HostLimiter,
    Hosts,
    Pace,
    PrioritySemaphore,
)

from ... import virtual


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*given: Any, **named: Any) -> None:
        virtual.run(lambda clock: test(*given, **named))

    return run


def limiter(limit: int = 2, delay: float = 0.5, processes: Callable[[], int] = lambda: 1) -> HostLimiter:
    return HostLimiter("example.org", Pace(limit, delay, processes))


def now() -> float:
    return asyncio.get_running_loop().time()


async def visit(host: HostLimiter, seconds: float = 0.0, **how: Any) -> float:
    """One request that takes `seconds`; when it started."""
    await host.enter(**how)
    start = now()
    await asyncio.sleep(seconds)
    host.leave(latency=seconds)
    return start


async def rows(host: HostLimiter, number: int, *, patience: float = 60.0) -> tuple[list[float], int]:
    """Rows that come back when they are told to: when each started, and how often they were put off."""
    put_offs = 0

    async def row() -> float:
        nonlocal put_offs
        try:
            return await visit(host, patience=patience)
        except PutOff as put_off:
            put_offs += 1
            await asyncio.sleep(put_off.seconds)
            return await row()

    return sorted(await asyncio.gather(*(row() for _ in range(number)))), put_offs


def most_in(times: list[float], seconds: float) -> int:
    """The most starts that fall into any window of that length."""
    return max(sum(start <= time <= start + seconds for time in times) for start in times)


# Pace


@in_virtual_time
async def test_the_pause_grows_with_the_hosts_slowness_and_shrinks_back() -> None:
    host = limiter(limit=2, delay=0.5)
    assert host.interval == 0.5
    for _ in range(20):
        await visit(host, 8.0)
    assert 3.5 < host.interval <= 4.0
    for _ in range(20):
        await visit(host, 0.01)
    assert host.interval == 0.5
    for _ in range(20):
        await visit(host, 10_000.0)
    assert host.interval == MAX_DELAY


@in_virtual_time
async def test_failures_double_the_pause() -> None:
    host = limiter()
    host.penalise()
    first = host.interval
    host.penalise()
    assert first > 0.5 and host.interval == 2 * first


@in_virtual_time
async def test_without_a_delay_of_our_own_only_the_hosts_wish_counts() -> None:
    host = limiter(delay=0.0)
    for _ in range(20):
        await visit(host, 8.0)
    assert host.interval == 0.0
    host.crawl_delay = 3.0
    assert host.interval == 3.0


@in_virtual_time
async def test_a_host_gets_no_more_requests_at_once_than_allowed_and_each_after_a_pause() -> None:
    host = limiter(limit=2, delay=0.5)
    starts = await asyncio.gather(*(visit(host, 3.0) for _ in range(6)))
    assert starts[:3] == [0.0, 0.5, 3.0]
    assert most_in(starts, 2.99) == 2


@in_virtual_time
async def test_a_cancelled_waiter_gives_its_turn_on() -> None:
    host = limiter(limit=1, delay=0.0)
    await host.enter()
    waiting = [asyncio.ensure_future(host.enter()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    host.leave()
    await asyncio.wait_for(waiting[1], 0.5)
    # Cancelled after its turn was given, before it could take it.
    host.leave()
    waiting[2].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert not host.has_state(now())


# Putting off


@in_virtual_time
async def test_rows_beyond_ones_patience_are_promised_turns_and_all_keep_the_hosts_pace() -> None:
    host = limiter(delay=0.5)
    starts, put_offs = await rows(host, 5000)
    assert all(later - earlier >= 0.499 for earlier, later in itertools.pairwise(starts))
    assert starts[-1] <= 2500 * 1.01, "the host is never left idle while rows wait for it"
    assert put_offs < 2 * 5000


@in_virtual_time
async def test_only_rows_whose_turn_is_near_wait_in_place() -> None:
    host = limiter(delay=0.5)
    answers = await asyncio.gather(*(visit(host, patience=60.0) for _ in range(1000)), return_exceptions=True)
    seconds = [answer.seconds for answer in answers if isinstance(answer, PutOff)]
    assert len(seconds) == 1000 - 121
    assert seconds == sorted(seconds) and 450 < seconds[-1] < 500, "at the host's pace, somewhat early"
    assert {(answer.reason, answer.counts) for answer in answers if isinstance(answer, PutOff)} == {
        ("example.org: waiting for its turn", False)
    }


@in_virtual_time
async def test_a_rest_puts_off_those_who_wait_and_those_who_come_until_it_ends() -> None:
    host = limiter(delay=0.5)
    await host.enter()
    waiting = [asyncio.ensure_future(visit(host, patience=60.0)) for _ in range(10)]
    patient = asyncio.ensure_future(visit(host, priority=True, patience=600.0))
    await asyncio.sleep(0)
    host.back_off(300.0)
    host.leave()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert {(answer.seconds, answer.counts) for answer in answers if isinstance(answer, PutOff)} == {(300.0, True)}
    with pytest.raises(PutOff, match=r"example\.org asked us to wait") as late:
        await host.enter(patience=60.0)
    assert late.value.seconds == 300.0
    assert await patient == 300.0


@in_virtual_time
async def test_a_short_rest_and_any_wait_of_a_patient_caller_are_waited_out_in_place() -> None:
    host = limiter(delay=0.5)
    host.back_off(50.0)
    assert await visit(host, patience=60.0) == 50.0
    host.back_off(86400.0)
    assert await visit(host) == 86450.0


@in_virtual_time
async def test_a_host_that_is_slower_than_foreseen_keeps_nobody_for_long() -> None:
    host = limiter(limit=1, delay=0.0)
    starts, put_offs = await rows(host, 5)
    assert put_offs == 0
    occupied = asyncio.ensure_future(visit(host, 10_000.0))
    await asyncio.sleep(0)
    with pytest.raises(PutOff):
        await host.enter(patience=60.0)
    assert now() - starts[-1] == 120.0
    await occupied


@in_virtual_time
async def test_a_host_that_grows_slow_and_quick_again_is_not_left_idle_for_long() -> None:
    host = limiter(delay=0.5)
    for _ in range(6):
        host.penalise()
    assert host.interval > 10
    starts, _ = await rows(host, 400)
    assert starts[-1] < 400 * 0.5 + 600


@in_virtual_time
async def test_what_was_promised_to_a_caller_that_ended_keeps_no_other_away() -> None:
    host = limiter(delay=0.5)
    await asyncio.gather(*(visit(host, patience=60.0) for _ in range(50_000)), return_exceptions=True)
    host.forget_promises()
    starts, _ = await rows(host, 500)
    assert starts[-1] - starts[0] < 400


# Several processes


@pytest.mark.parametrize("delay", [0.05, 0.5, 5.0])
@in_virtual_time
async def test_two_processes_together_keep_the_pace_also_while_one_joins_and_leaves(delay: float) -> None:
    alive = {"one"}
    known = {"one": 1, "other": 1}

    async def tell() -> None:
        """Each process learns within a second how many there are; one that joins at once."""
        while True:
            number = len(alive)
            await asyncio.sleep(1.0)
            known["one"] = known["other"] = number

    telling = asyncio.ensure_future(tell())
    one = limiter(delay=delay, processes=lambda: known["one"])
    first = asyncio.ensure_future(rows(one, 200, patience=1e9))
    times: list[float] = []
    for _ in range(3):
        await asyncio.sleep(21.3 * delay)
        alive.add("other")
        known["other"] = 2
        other = limiter(delay=delay, processes=lambda: known["other"])
        times += (await rows(other, 12, patience=1e9))[0]
        alive.remove("other")
    times += (await first)[0]
    telling.cancel()
    assert len(times) == 236
    assert most_in(times, 10 * delay) <= 11


@in_virtual_time
async def test_a_host_that_was_asked_before_another_process_came_goes_on_without_a_stop() -> None:
    number = 1
    host = limiter(delay=0.5, processes=lambda: number)
    await visit(host)
    number = 2
    assert await visit(host) == pytest.approx(1.01)
    newcomer = limiter(delay=0.5, processes=lambda: 2)
    assert await visit(newcomer) == pytest.approx(1.01 + NOTICE_SECONDS + 1.01)


@in_virtual_time
async def test_who_is_left_alone_keeps_the_shared_pace_until_the_others_requests_are_old() -> None:
    number = 2
    stays, leaves = (limiter(delay=5.0, processes=lambda: number) for _ in range(2))
    first = asyncio.ensure_future(rows(stays, 60, patience=1e9))
    await asyncio.sleep(0.001)
    times, _ = await rows(leaves, 3, patience=1e9)
    number = 1
    times += (await first)[0]
    assert most_in(times, 50.0) <= 11
    assert sorted(times)[-1] < 62 * 5.0 + 50


@in_virtual_time
async def test_processes_share_how_many_requests_a_host_gets_at_once() -> None:
    limits = [Pace(8, 0.0, lambda number=number: number).limit for number in (1, 2, 3, 9)]  # type: ignore[misc]
    assert limits == [8, 4, 2, 1]


# PrioritySemaphore


@in_virtual_time
async def test_global_slots_go_in_order_and_survive_cancellation() -> None:
    slots = PrioritySemaphore(1)
    first = await slots.acquire()
    waiting = [asyncio.ensure_future(slots.acquire()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    first.release()
    first.release()
    # The turn is given, and the one who got it is cancelled before it can take it.
    waiting[1].cancel()
    second = await asyncio.wait_for(waiting[2], 0.5)
    second.release()
    (await asyncio.wait_for(slots.acquire(), 0.5)).release()


@in_virtual_time
async def test_who_goes_on_with_a_row_is_served_before_those_who_begin_one() -> None:
    slots = PrioritySemaphore(1)
    token = await slots.acquire()
    served: list[str] = []

    async def use(name: str, priority: bool) -> None:
        taken = await slots.acquire(priority=priority)
        served.append(name)
        taken.release()

    tasks = [asyncio.ensure_future(use(name, name.startswith("on"))) for name in ("new 1", "on 1", "new 2", "on 2")]
    await asyncio.sleep(0)
    token.release()
    await asyncio.gather(*tasks)
    assert served == ["on 1", "on 2", "new 1", "new 2"]


@in_virtual_time
async def test_before_a_host_too_and_whoever_is_cancelled_is_not_waited_for() -> None:
    host = limiter(limit=1, delay=0.0)
    await host.enter()
    served: list[str] = []

    async def use(name: str, priority: bool) -> None:
        await host.enter(priority=priority)
        served.append(name)
        host.leave()

    tasks = [asyncio.ensure_future(use(name, name.startswith("on"))) for name in ("new 1", "on 1", "new 2", "on 2")]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.sleep(0)
    host.leave()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert served == ["on 2", "new 1", "new 2"]


# Forgetting


@in_virtual_time
async def test_hosts_with_nothing_to_remember_are_forgotten_in_a_constant_number_of_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at = 0
    has_state = HostLimiter.has_state

    def counting(self: HostLimiter, at: float) -> bool:
        nonlocal looked_at
        looked_at += 1
        return has_state(self, at)

    monkeypatch.setattr(HostLimiter, "has_state", counting)
    hosts = Hosts(Pace(1, 0.0))
    for n in range(50_000):
        hosts.limiter(f"h{n}")
    assert len(hosts) <= 1025
    assert looked_at <= 2 * 50_000


@in_virtual_time
async def test_hosts_that_rest_or_have_a_crawl_delay_are_remembered_for_as_long_as_it_matters() -> None:
    hosts = Hosts(Pace(1, 0.0))
    for n in range(3000):
        host = hosts.limiter(f"rests{n}")
        host.back_off(100.0)
        await visit(hosts.limiter(f"slow{n}"))
        hosts.limiter(f"slow{n}").crawl_delay = 200.0
    for n in range(3000):
        hosts.limiter(f"new{n}")
    assert len(hosts) >= 6000
    assert hosts.limiter("rests0").back_off_until == 100.0
    await asyncio.sleep(300.0)
    for n in range(9000):
        hosts.limiter(f"newer{n}")
    assert len(hosts) <= 1100
