"""Filters of other plugins select for jobs as they do for the table's page, and a misspelt one selects nothing."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from datasette import hookimpl
from datasette.filters import FilterArguments
from datasette.plugins import pm
from datasette.utils.asgi import Forbidden

from datasette_ingest.jobs.errors import BadSelection, NotAllowed
from datasette_ingest.jobs.service import control, queries

from ..conftest import ROOT, registered, rows, serving
from .kit import by_row, start, table, to_the_end


@contextlib.contextmanager
def filtering(**hooks: Any) -> Any:
    """A plugin whose `_numbered=n` selects rows from n on; `_friends` is for root; `answer` replaces its condition."""

    class Plugin:
        __name__ = "numbering"

        @hookimpl
        def filters_from_request(self, request: Any, database: str, table: str, datasette: Any) -> Any:
            async def conditions() -> FilterArguments | None:
                if "_friends" in request.args and (request.actor or {}).get("id") != "root":
                    raise Forbidden("friends only")
                if "_numbered" in request.args or "_friends" in request.args:
                    number = request.args.get("_numbered") or 4
                    return hooks.get("answer") or FilterArguments(["id >= :n"], {"n": number}, [f"from {number}"])
                return None

            return conditions

    pm.register(Plugin(), name="numbering")
    try:
        yield
    finally:
        pm.unregister(name="numbering")


async def test_a_plugins_filter_selects_for_the_count_the_preview_the_job_and_its_retry(db_path):
    seen = []

    def enrich(row: Any) -> None:
        seen.append(row["id"])
        if row["id"] == 5:
            raise ValueError("five")

    with registered(by_row(enrich)), filtering():
        async with serving(db_path) as datasette:
            job = await start(datasette, filters="_numbered=4")
            assert job.row_count == 2
            assert (await to_the_end(datasette, job)).done_count == 2
            assert sorted(seen) == [4, 5]
            shown = await datasette.client.get("/data/papers.json?_numbered=4&_shape=array")
            assert [row["id"] for row in shown.json()] == [4, 5]
            again = await control.retry(datasette, "data", job.id, actor=ROOT)
            await to_the_end(datasette, again)
    assert sorted(seen) == [4, 5, 5]


async def test_what_was_stored_is_what_a_resumed_job_selects(db_path):
    seen = []
    with registered(by_row(lambda row: seen.append(row["id"]))):
        async with serving(db_path) as datasette:
            with filtering():
                job = await start(datasette, filters="_numbered=4")
                await control.pause(datasette, "data", job.id, actor=ROOT)
                changed = FilterArguments(["id >= :n"], {"n": 1})
            with filtering(answer=changed):  # the plugin means something else by now
                await control.resume(datasette, "data", job.id, actor=ROOT)
            await to_the_end(datasette, job)  # and now it is gone
    assert sorted(seen) == [4, 5]
    assert rows(db_path, "select status from _enrichment_jobs") == [("finished",)]


async def test_a_filter_that_no_plugin_takes_is_refused(db_path):
    with registered(by_row(lambda row: None)):
        async with serving(db_path) as datasette:
            with filtering():
                for filters in ("_numbred=4", "_numbered=4&_numbred=4", "_numbered__gt=4", "_numbered=4&_facet_no=x"):
                    with pytest.raises(BadSelection, match="Unknown filter"):
                        await start(datasette, filters=filters)
            with pytest.raises(BadSelection, match="Unknown filter '_numbered'"):
                await start(datasette, filters="_numbered=4")


@pytest.mark.parametrize(("value", "count"), [(True, 5), (2.5, 3), ("4", 2), (b"x", 0), (None, 0)])
async def test_parameters_of_every_type_are_stored(db_path, value, count):
    with registered(by_row(lambda row: None)), filtering(answer=FilterArguments(["id >= :n"], {"n": value})):
        async with serving(db_path) as datasette:
            job = await start(datasette, filters="_numbered=1")
            assert job.row_count == count
            assert (await to_the_end(datasette, job)).done_count == count


async def test_a_parameter_that_sqlite_cannot_store_is_refused(db_path):
    with registered(by_row(lambda row: None)), filtering(answer=FilterArguments(["id >= :n"], {"n": [4]})):
        async with serving(db_path) as datasette:
            with pytest.raises(BadSelection, match="compares with list, which SQLite has no value for"):
                await start(datasette, filters="_numbered=1")


async def test_a_plugins_refusal_is_a_refusal_and_hides_the_stored_filter(db_path):
    reader = {"id": "reader"}
    with registered(by_row(lambda row: None)):
        async with serving(db_path, plugin={"allow": {"id": "reader"}}) as datasette:
            with filtering():
                with pytest.raises(NotAllowed, match="friends only"):
                    await start(datasette, filters="_friends=ada", actor=reader)
                job = await start(datasette, filters="_friends=ada")
                shown = await queries.find(datasette, "data", job.id, actor=reader)
                assert (shown.filter_querystring, shown.selection, shown.hides_filters) == (
                    "_friends=…",
                    None,
                    True,
                )
                assert (await queries.find(datasette, "data", job.id, actor=ROOT)).filter_querystring == "_friends=ada"
                with pytest.raises(NotAllowed):
                    await control.retry(datasette, "data", await _ended(datasette, job), actor=reader)
            # nobody knows whom the plugin would have refused
            assert (await queries.find(datasette, "data", job.id, actor=reader)).hides_filters
            assert not (await queries.find(datasette, "data", job.id, actor=ROOT)).hides_filters


async def _ended(datasette: Any, job: Any) -> int:
    return (await to_the_end(datasette, job)).id


async def test_a_plugins_filter_of_every_selection_holds_for_jobs_too(db_path):
    class Plugin:
        __name__ = "hiding"

        @hookimpl
        def filters_from_request(self, request: Any) -> Any:
            return FilterArguments(["id <> :hidden"], {"hidden": 3})

    table(db_path, "create table notes (id integer primary key)")
    pm.register(Plugin(), name="hiding")
    try:
        with registered(by_row(lambda row: None)):
            async with serving(db_path) as datasette:
                assert (await start(datasette)).row_count == 4
                assert (await start(datasette, filters="id__gte=3")).row_count == 2
    finally:
        pm.unregister(name="hiding")
