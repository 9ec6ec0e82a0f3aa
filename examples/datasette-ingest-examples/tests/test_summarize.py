"""The bill is exact, and a budget stops the job before the batch that would pass it."""

from datasette_ingest.testing import table_of

from datasette_ingest_examples.summarize import MOST_TOKENS, Summarize

TEXT = " ".join(["word"] * 128)  # 128 tokens read and 12 written: 140 tokens, 14,000 nanodollars
CONFIG = {"column": "text"}


def texts(number):
    return [{"id": n, "text": TEXT} for n in range(1, number + 1)]


async def test_a_text_is_summarized_and_every_token_is_on_the_bill():
    async with table_of([{"text": "one two three four"}]) as table:
        job = await table.run("summarize", {**CONFIG, "words": 2})
        assert await table.rows() == [{"text": "one two three four", "summary": "one two"}]
    assert job.cost_nanodollars == (4 + 2) * 100


async def test_empty_rows_cost_nothing_and_have_a_word_of_their_own():
    async with table_of([{"text": "one"}, {"text": None}, {"text": " "}]) as table:
        job = await table.run("summarize", CONFIG)
        assert [row["summary"] for row in await table.rows()] == ["one", None, None]
    assert (job.outcomes, job.cost_nanodollars) == ({"success": 1, "empty": 2}, 200)


async def test_a_row_that_the_model_cannot_read_leaves_the_bill_of_the_others_exact():
    long = "word " * (MOST_TOKENS + 1)
    async with table_of([{"id": 1, "text": TEXT}, {"id": 2, "text": long}, {"id": 3, "text": TEXT}], pk="id") as table:
        job = await table.run("summarize", CONFIG)
        [error] = await table.errors(job)
    assert (job.status.value, job.outcomes) == ("finished", {"success": 2, "error": 1})
    assert error.row_pks == [2] and "1001 tokens" in error.error
    assert job.cost_nanodollars == 28_000


async def test_the_budget_pauses_the_job_before_the_batch_that_would_pass_it():
    async with table_of(texts(12), pk="id") as table:
        job = await table.run("summarize", CONFIG, options={"budget_100ths_cent": 1})  # 100,000 nanodollars
        written = [row["id"] for row in await table.rows() if row["summary"]]
    assert (job.status.value, job.done_count, job.cost_nanodollars) == ("paused", 5, 70_000)
    assert "budget" in job.pause_reason and job.resume_at is None
    assert written == [1, 2, 3, 4, 5]


async def test_a_budget_that_covers_the_bill_stops_nothing():
    async with table_of(texts(12)) as table:
        job = await table.run("summarize", CONFIG, options={"budget_100ths_cent": 2})
    assert (job.status.value, job.cost_nanodollars, job.cost_100ths_cent) == ("finished", 168_000, 2)


def test_a_price_is_never_below_what_is_billed():
    config = Summarize.Config(column="text", words=5)
    rows = [{"text": TEXT}, {"text": "short"}, {"text": None}]
    assert Summarize().price_nanodollars(rows, config) == (128 + 5 + 1 + 5) * 100
