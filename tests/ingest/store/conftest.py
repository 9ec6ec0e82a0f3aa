"""A database with the tables of results, in a transaction."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

import pytest

from datasette_ingest.ingest import schema


@pytest.fixture
def conn() -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        schema.migrate(connection, (*schema.RESULT_TABLES, *schema.ARCHIVE_TABLES, "ingest_request"))
        connection.row_factory = sqlite3.Row
        connection.execute("begin")
        yield connection
