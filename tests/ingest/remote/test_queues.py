"""Which request is begun next, and which are too many to hold."""

from __future__ import annotations

from collections import Counter, deque

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from datasette_ingest.ingest.remote.queues import HostQueues


def filled(at_once: int = 2, most: int = 99, **hosts: int) -> HostQueues[str]:
    queues: HostQueues[str] = HostQueues(at_once)
    for host, number in hosts.items():
        for each in range(number):
            assert queues.add(host, f"{host}{each}", most=most, now=0.0, interval=1.0) is None
    return queues


def begun(queues: HostQueues[str]) -> list[str]:
    found = []
    while (item := queues.begin()) is not None:
        found.append(item)
    return found


def test_hosts_are_begun_in_turn_and_each_up_to_its_limit() -> None:
    queues = filled(a=3, b=1, c=3)
    assert begun(queues) == ["a0", "b0", "c0", "a1", "c1"]
    queues.finish("a")
    assert begun(queues) == ["a2"]


def test_a_request_that_was_put_back_is_the_next_of_its_host() -> None:
    queues = filled(at_once=1, a=2)
    assert begun(queues) == ["a0"]
    queues.put_back("a", "a0")
    queues.finish("a")
    assert begun(queues) == ["a0"]


def test_too_many_of_one_host_wait_elsewhere_each_until_a_turn_of_its_own() -> None:
    queues = filled(a=3)
    waits = [queues.add("a", "more", most=3, now=10.0, interval=2.0) for _ in range(3)]
    assert waits == [6.0, 8.0, 10.0]
    assert queues.add("b", "another", most=3, now=10.0, interval=2.0) is None


def test_promised_turns_count_down_and_end() -> None:
    queues = filled(a=1)
    assert queues.add("a", "more", most=1, now=0.0, interval=5.0) == 5.0
    assert begun(queues) == ["a0"]
    queues.finish("a")
    queues.forget_promises(now=9.0)
    assert list(queues) == ["a"]
    queues.forget_promises(now=10.0)
    assert list(queues) == []


def test_dropping_forgets_what_waits_and_keeps_count_of_what_was_begun() -> None:
    queues = filled(at_once=1, a=2, b=2)
    assert begun(queues) == ["a0", "b0"]
    assert queues.drop(lambda item: item.startswith("a")) == 1
    queues.finish("a")
    assert list(queues) == ["b"]
    queues.finish("b")
    assert begun(queues) == ["b1"]


class Model(RuleBasedStateMachine):
    """Whatever happens in whatever order: each host's requests are begun in order, and never more than its limit."""

    def __init__(self) -> None:
        super().__init__()
        self.queues: HostQueues[tuple[str, int]] = HostQueues(2)
        self.waiting: dict[str, deque[tuple[str, int]]] = {host: deque() for host in "abc"}
        self.open: Counter[str] = Counter()
        self.number = 0

    @rule(host=st.sampled_from("abc"))
    def add(self, host: str) -> None:
        self.number += 1
        item = (host, self.number)
        wait = self.queues.add(host, item, most=4, now=0.0, interval=1.0)
        assert (wait is None) == (len(self.waiting[host]) < 4)
        if wait is None:
            self.waiting[host].append(item)

    @rule()
    def begin(self) -> None:
        item = self.queues.begin()
        if item is None:
            assert all(not self.waiting[host] or self.open[host] >= 2 for host in "abc")
            return
        assert self.waiting[item[0]].popleft() == item
        self.open[item[0]] += 1

    @rule(host=st.sampled_from("abc"))
    def finish(self, host: str) -> None:
        if self.open[host]:
            self.open[host] -= 1
            self.queues.finish(host)

    @rule(host=st.sampled_from("abc"))
    def drop(self, host: str) -> None:
        assert self.queues.drop(lambda item: item[0] == host) == len(self.waiting[host])
        self.waiting[host].clear()

    @invariant()
    def counts_agree(self) -> None:
        assert len(self.queues) == sum(map(len, self.waiting.values()))
        assert all(number <= 2 for number in self.open.values())


TestModel = Model.TestCase


@given(st.integers(1, 50))
def test_a_host_that_nothing_is_known_of_takes_no_memory(number: int) -> None:
    queues = filled(at_once=number, most=number, a=number)
    for _ in begun(queues):
        queues.finish("a")
    assert list(queues) == []
