"""Jobs of several databases as one list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.jobs.errors import JobError
from datasette_ingest.web.api import JobsQuery
from datasette_ingest.web.jobs_list import Cursor, newest

from .conftest import ROOT, make_words, start


@given(st.dictionaries(st.text(min_size=1), st.integers(0, 2**63 - 1), max_size=4))
def test_a_cursor_reads_back_as_it_was_written(before):
    assert Cursor.read(Cursor(before).write() or None).before == before


@pytest.mark.parametrize("text", ["x", "x:", "x:-1", "x:1,", "x:²", "x:99999999999999999999"])
def test_a_cursor_that_nobody_wrote_is_refused(text):
    with pytest.raises(JobError):
        Cursor.read(text)


async def test_pages_over_two_databases_lose_and_repeat_no_job(open_ds, tmp_path):
    paths = [str(tmp_path / name) for name in ("one.db", "two:,.db")]
    for path in paths:
        make_words(path)
    ds = await open_ds({"plugins": {"datasette-ingest": {"run_jobs": False}}}, paths=paths)
    for database in ("one", "two:,", "two:,", "one", "one"):
        await start(ds, database=database)
    seen, query = [], JobsQuery()
    while True:
        page = await newest(ds, ["one", "two:,"], ROOT, query, 2)
        seen += [(database, job.id) for database, job in page.jobs]
        if page.next is None:
            break
        query = JobsQuery(_next=page.next)
    assert sorted(seen) == [("one", 1), ("one", 2), ("one", 3), ("two:,", 1), ("two:,", 2)]
    assert [number for database, number in seen if database == "one"] == [3, 2, 1]
