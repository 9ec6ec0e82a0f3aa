"""Keys, and the partitions and waits that follow from them."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.partitioner import DefaultPartitioner, murmur2
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest.remote import routing
from datasette_ingest.ingest.remote.parking import WAITS, due, partition_for

RESOLVER = "https://doi.example/"


@given(st.binary(max_size=40), st.integers(1, 100))
def test_a_key_has_the_partition_that_other_producers_give_it(key: bytes, number: int) -> None:
    assert routing.murmur2(key) == murmur2(key)
    assert routing.partition_of(key, number) == DefaultPartitioner()(key, list(range(number)), list(range(number)))


@pytest.mark.parametrize(
    ("cell", "host"),
    [
        ("https://Host.Example:8443/a?b", "host.example"),
        ("http://[::1]/a", "::1"),
        ("https://bücher.example/", "xn--bcher-kva.example"),
        ("10.1371/journal.pone.0035089", "doi.example"),
        ("https://doi.org/10.1371/x", "doi.example"),
        (b"https://host.example/", "host.example"),
        ("no link", routing.NOWHERE),
        ("ftp://host.example/", routing.NOWHERE),
        (None, routing.NOWHERE),
        (5, routing.NOWHERE),
    ],
)
def test_a_request_is_keyed_by_the_host_that_is_asked_first(cell: Any, host: str) -> None:
    assert routing.host_of(cell, RESOLVER) == host


@pytest.mark.parametrize(
    ("cell", "key"),
    [("https://h.example/ü", "https://h.example/ü".encode()), (b"\xff", b"\xff"), (5, b"5"), (None, b"")],
)
def test_a_result_is_keyed_by_its_cell(cell: Any, key: bytes) -> None:
    assert routing.result_key(cell) == key


@given(st.floats(0, 10 * WAITS[-1]))
def test_a_wait_is_never_too_long_except_for_the_shortest(seconds: float) -> None:
    number = partition_for(seconds)
    assert WAITS[number] <= max(seconds, WAITS[0])
    assert number + 1 == len(WAITS) or WAITS[number + 1] > seconds


@given(st.floats(0, 30 * 24 * 3600))
def test_a_long_wait_is_a_few_waits_in_turn(seconds: float) -> None:
    now, moves = 0.0, 0
    while seconds - now > WAITS[0] / 2:
        now = due(now, partition_for(seconds - now))
        moves += 1
    assert abs(now - seconds) <= WAITS[0] and moves <= seconds / WAITS[-1] + 30
