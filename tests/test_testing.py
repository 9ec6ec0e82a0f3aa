"""What authors of enrichments test with: a table, a job run to its end, time that passes without waiting."""

import datetime
import pathlib

import pytest

from datasette_ingest import BatchOutcome, Enrichment, Pause, RowUpdate
from datasette_ingest.jobs.errors import BadConfig, IllegalTransition
from datasette_ingest.jobs.model import JobStatus
from datasette_ingest.testing import table_of

from .conftest import registered


class Sleepy(Enrichment):
    """Pauses until tomorrow before its first row, then answers."""

    slug, name = "sleepy", "Sleepy"

    def __init__(self, until=None):
        self.until = until
        self.has_slept = False

    async def enrich_batch(self, pks):
        if not self.has_slept:
            self.has_slept = True
            raise Pause("Tired", self.until)
        return BatchOutcome(updates=[RowUpdate(pk, {"rested": 1}) for pk in pks])


async def test_a_job_runs_over_a_table_of_the_given_rows(shout):
    async with table_of([{"id": 2, "title": "b"}, {"id": 1, "title": "a"}], pk="id") as table:
        job = await table.run("shout", {"column": "title"})
        assert (job.status, job.done_count) == (JobStatus.FINISHED, 2)
        assert await table.rows() == [
            {"id": 1, "title": "a", "shouted": "A"},
            {"id": 2, "title": "b", "shouted": "B"},
        ]


async def test_filters_and_options_reach_the_job(shout):
    async with table_of([{"n": n, "title": "a"} for n in range(6)], name='odd "name"') as table:
        job = await table.run("shout", {"column": "title"}, filters="n__lt=4", options={"batch_size": 3})
        assert (job.row_count, job.table_name, job.options.batch_size) == (4, 'odd "name"', 3)
        assert [row["shouted"] for row in await table.rows()] == ["A"] * 4 + [None] * 2


async def test_more_rows_than_datasette_shows_on_a_page_all_come_back(shout):
    async with table_of([{"title": "a"}] * 1500) as table:
        await table.run("shout", {"column": "title"})
        assert [row["shouted"] for row in await table.rows()] == ["A"] * 1500


async def test_every_row_in_error_is_told_with_its_key(shout):
    async with table_of([{"id": n, "title": None if n % 2 else "a"} for n in range(1, 302)], pk="id") as table:
        job = await table.run("shout", {"column": "title"}, options={"max_errors": 1000})
        errors = await table.errors(job)
    assert [error.row_pks for error in errors] == [[n] for n in range(1, 302, 2)]
    assert {error.error for error in errors} == {"AttributeError: 'NoneType' object has no attribute 'upper'"}


async def test_a_job_without_errors_has_none(shout):
    async with table_of([{"title": "a"}]) as table:
        assert await table.errors(await table.run("shout", {"column": "title"})) == []


async def test_settings_that_are_wrong_are_refused(shout):
    async with table_of([{"title": "a"}]) as table:
        with pytest.raises(BadConfig, match="column: a value is needed"):
            await table.run("shout")


async def test_a_job_that_sleeps_goes_on_when_its_time_has_come_and_not_before():
    tomorrow = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    with registered(Sleepy(tomorrow)):
        async with table_of([{"a": 1}]) as table:
            job = await table.run("sleepy")
            assert (job.status, job.pause_reason, job.done_count) == (JobStatus.PAUSED, "Tired", 0)
            job = await table.resume_when_due(job)
            assert (job.status, job.resume_at) == (JobStatus.FINISHED, None)
            assert await table.rows() == [{"a": 1, "rested": 1}]


async def test_a_job_that_waits_for_a_person_goes_on_when_one_says_so():
    with registered(Sleepy()):
        async with table_of([{"a": 1}]) as table:
            job = await table.run("sleepy")
            with pytest.raises(ValueError, match="does not wait for a time"):
                await table.resume_when_due(job)
            job = await table.resume(job)
            assert job.status is JobStatus.FINISHED
            with pytest.raises(IllegalTransition):
                await table.resume(job)


async def test_the_configuration_reaches_the_plugins():
    async with table_of([{"a": 1}], config={"plugins": {"somebody": {"a": 1}}}) as table:
        assert table.datasette.plugin_config("somebody") == {"a": 1}


async def test_columns_hold_what_the_rows_hold():
    async with table_of([{"a": None, "b": b"\x00"}, {"a": 1, "c": 1.5}]) as table:
        assert await table.rows() == [{"a": None, "b": b"\x00", "c": None}, {"a": 1, "b": None, "c": 1.5}]


async def test_no_rows_make_no_table():
    with pytest.raises(ValueError, match="at least one row"):
        async with table_of([]):
            pass


async def test_nothing_is_left_on_disk(shout):
    async with table_of([{"title": "a"}]) as table:
        folder = pathlib.Path(table.datasette.get_database("trial").path).parent
        assert folder.is_dir()
    assert not folder.exists()
