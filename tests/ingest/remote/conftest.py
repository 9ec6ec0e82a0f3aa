"""One broker for all tests of a process; each test has topics of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import brokers


@pytest.fixture(scope="session")
def broker() -> Iterator[brokers.Broker]:
    with brokers.running() as broker:
        yield broker
