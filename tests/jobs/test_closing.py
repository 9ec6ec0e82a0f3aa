"""An instance that is closed while its database is read: the read ends first, since SQLite does not survive the other."""

from __future__ import annotations

import asyncio
import pathlib
import sqlite3
import threading
from typing import Any

from datasette.app import Datasette

from datasette_ingest import compat

COUNT = "with recursive n(i) as (select 1 union all select i + 1 from n limit 300000) select count(*) from n"


async def test_a_read_ends_before_its_connection_is_closed(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "papers.db"
    sqlite3.connect(path).close()
    datasette = Datasette([str(path)])
    began = threading.Event()

    def slow(conn: sqlite3.Connection) -> Any:
        began.set()
        return conn.execute(COUNT).fetchone()[0]

    reading = asyncio.ensure_future(compat.read(datasette.databases["papers"], slow))
    while not began.is_set():
        await asyncio.sleep(0)
    compat.close(datasette)
    assert await reading == 300_000
