"""A column is upper-cased; what is no text is an error of its row alone."""

import pytest
from datasette_ingest.testing import table_of


async def test_a_column_is_upper_cased_into_another():
    async with table_of([{"title": "one"}, {"title": "größer"}]) as table:
        job = await table.run("shout", {"column": "title"})
        assert (job.status.value, job.outcomes) == ("finished", {"success": 2})
        assert await table.rows() == [
            {"title": "one", "shouted": "ONE"},
            {"title": "größer", "shouted": "GRÖSSER"},
        ]


async def test_a_null_has_no_upper_case_whatever_an_earlier_run_wrote():
    async with table_of([{"title": "one", "shouted": None}, {"title": None, "shouted": "OLD"}]) as table:
        await table.run("shout", {"column": "title"})
        assert [row["shouted"] for row in await table.rows()] == ["ONE", None]


async def test_a_blob_is_its_rows_error_and_the_others_go_on():
    async with table_of([{"id": 1, "title": b"\x00"}, {"id": 2, "title": "two"}], pk="id") as table:
        job = await table.run("shout", {"column": "title"})
        assert [(error.row_pks, error.error) for error in await table.errors(job)] == [
            ([1], "TypeError: title holds bytes, not text")
        ]
        assert [row["shouted"] for row in await table.rows()] == [None, "TWO"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "column: a value is needed"),
        ({"column": "nosuch"}, "no column 'nosuch'"),
        ({"column": "title", "outptu": "loud"}, "outptu: there is no such setting"),
        ({"column": "title", "output": "Title"}, "must be another column"),
    ],
)
async def test_settings_that_cannot_work_are_refused_before_there_is_a_job(config, message):
    async with table_of([{"title": "one"}]) as table:
        with pytest.raises(Exception, match=message):
            await table.run("shout", config)
        assert await table.rows() == [{"title": "one"}]
