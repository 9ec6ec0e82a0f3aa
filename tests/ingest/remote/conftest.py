"""One broker for all tests of a process; each test has topics of its own."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest

from . import brokers


@pytest.fixture(scope="session")
def broker() -> Iterator[brokers.Broker]:
    with brokers.running() as broker:
        yield broker


@pytest.fixture(autouse=True)
def _what_the_client_leaves_open() -> Iterator[None]:
    """aiokafka connects again a moment after it was closed, now and then. That is no fault of the next test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
