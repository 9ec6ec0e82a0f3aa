"""Shared set-up: the fake API, and the environment that points to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from datasette_ingest_examples.translate import ADDRESS_VARIABLE, SECRET
from fake_api import FakeApi, serving


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    with serving() as running:
        monkeypatch.setenv(ADDRESS_VARIABLE, running.url)
        monkeypatch.setenv(f"DATASETTE_SECRETS_{SECRET}", "key-1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")  # whatever proxy this machine uses
        yield running
