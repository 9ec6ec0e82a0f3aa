"""The queue before one host, on a clock of its own."""

from __future__ import annotations

import asyncio

from datasette_ingest.ingest.http.hosts import MAX_DELAY, HostGate, Hosts, Slots


def gate(limit: int = 2, delay: float = 0.5) -> HostGate:
    return HostGate(limit, delay, lambda: None)


async def slowed(one: HostGate, latency: float, times: int = 20) -> None:
    for _ in range(times):
        one._active += 1
        one.leave(latency=latency)


async def test_the_pause_grows_with_the_hosts_slowness_and_shrinks_back() -> None:
    host = gate(limit=2, delay=0.5)
    assert host.pause == 0.5
    await slowed(host, 8.0)
    assert 3.5 < host.pause <= 4.0
    await slowed(host, 0.01)
    assert host.pause == 0.5
    await slowed(host, 10_000.0)
    assert host.pause == MAX_DELAY


async def test_failures_double_the_pause() -> None:
    host = gate()
    host.strain()
    first = host.pause
    host.strain()
    assert first > 0.5 and host.pause == 2 * first


async def test_without_a_delay_of_our_own_only_the_hosts_wish_counts() -> None:
    host = gate(delay=0.0)
    await slowed(host, 8.0)
    assert host.pause == 0.0
    host.crawl_delay = 3.0
    assert host.pause == 3.0


async def test_an_unpaced_request_keeps_to_rests_only() -> None:
    host = gate(delay=60.0)
    await host.enter(paced=True)
    await asyncio.wait_for(host.enter(paced=False), 0.1)
    host.leave()
    host.leave()
    host.rest(0.05)
    begin = asyncio.get_running_loop().time()
    await host.enter(paced=False)
    assert asyncio.get_running_loop().time() - begin >= 0.04
    host.leave()


async def test_a_cancelled_waiter_gives_its_turn_on() -> None:
    host = gate(limit=1, delay=0.0)
    await host.enter(paced=True)
    waiting = [asyncio.ensure_future(host.enter(paced=True)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    host.leave()
    await asyncio.wait_for(waiting[1], 0.5)
    # Cancelled after its turn was given, before it could take it.
    host.leave()
    waiting[2].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert host.idle


async def test_global_slots_go_in_order_and_survive_cancellation() -> None:
    slots = Slots(1)
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


async def test_hosts_with_nothing_to_remember_are_forgotten() -> None:
    hosts = Hosts(limit=1, delay=0.0)
    for n in range(3000):
        hosts.gate(f"h{n}")
    assert len(hosts._gates) <= 1025


async def test_who_goes_on_with_a_row_is_served_before_those_who_begin_one() -> None:
    slots = Slots(1)
    token = await slots.acquire()
    served: list[str] = []

    async def use(name: str, goes_on: bool) -> None:
        taken = await slots.acquire(goes_on=goes_on)
        served.append(name)
        taken.release()

    tasks = [asyncio.ensure_future(use(name, name.startswith("on"))) for name in ("new 1", "on 1", "new 2", "on 2")]
    await asyncio.sleep(0)
    token.release()
    await asyncio.gather(*tasks)
    assert served == ["on 1", "on 2", "new 1", "new 2"]


async def test_before_a_host_too_and_whoever_is_cancelled_is_not_waited_for() -> None:
    host = gate(limit=1, delay=0.0)
    await host.enter(paced=True)
    served: list[str] = []

    async def use(name: str, goes_on: bool) -> None:
        await host.enter(paced=True, goes_on=goes_on)
        served.append(name)
        host.leave()

    tasks = [asyncio.ensure_future(use(name, name.startswith("on"))) for name in ("new 1", "on 1", "new 2", "on 2")]
    await asyncio.sleep(0)
    assert host.waiting == 4
    tasks[1].cancel()
    await asyncio.sleep(0)
    assert host.waiting == 3
    host.leave()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert served == ["on 2", "new 1", "new 2"]
