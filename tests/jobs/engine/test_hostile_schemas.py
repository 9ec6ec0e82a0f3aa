"""Hundreds of odd tables, each enriched, paused, killed, resumed, retried and downloaded: each row once, or a refusal."""

from __future__ import annotations

import asyncio
import json
import pathlib
import random
import sqlite3
import tempfile
from typing import Any

import pytest
from datasette.utils import tilde_encode

from datasette_ingest import compat
from datasette_ingest.jobs import keyset
from datasette_ingest.jobs.errors import BadSelection, JobError
from datasette_ingest.jobs.model import JobStatus
from datasette_ingest.jobs.service import control, failures, queries
from datasette_ingest.sqlite import quote
from datasette_ingest.testing import run_until_idle
from datasette_ingest.web.failures import line

from ...conftest import ROOT, registered, rows, serving
from ...web.conftest import cookies_of
from ..kit import by_row, look, start, to_the_end
from ..schemas import NUMBER, OUT, Schema, schema_of
from ..world import Mortal, World

FEW, MANY = range(20), range(20, 520)


class Enforcing(World):
    """Foreign keys are enforced, and another database with a table of the same name is attached."""

    def connect(self) -> Mortal:
        conn = super().connect()
        sqlite3.Connection.execute(conn, "pragma foreign_keys = on")
        sqlite3.Connection.execute(conn, "attach ':memory:' as elsewhere")
        sqlite3.Connection.execute(conn, f"create table elsewhere.{quote(self.table)} (id, {quote(NUMBER)}, {OUT})")
        return conn


def key_of(path: pathlib.Path, table: str) -> keyset.TableKey | None:
    """The table's key; None where it is refused."""
    conn = sqlite3.connect(path)
    try:
        return keyset.table_key(conn, table)
    except BadSelection as refusal:
        assert str(refusal)
        return None
    finally:
        conn.close()


def survive(path: pathlib.Path, made: Schema) -> None:
    """A job whose processes die between any two statements, which is paused and resumed."""
    chance = random.Random(-made.seed)
    with Enforcing(str(path), made.table, batch_size=chance.choice([1, 2, 5])) as world:
        numbers = {number for (number,) in world.ask(f"select {quote(NUMBER)} from main.{quote(made.table)}")}
        world.add_job()
        for _ in range(chance.randint(1, 6)):
            if not world.processes:
                world.start(far=chance.random() < 0.2)
            process = chance.choice(world.processes)
            process.turn(lambda left: chance.randint(0, left), dies_after=chance.choice([9999, chance.randint(0, 60)]))
            if chance.random() < 0.3:
                world.steer(JobStatus.PAUSED)
                world.steer(JobStatus.PENDING)
            world.now += chance.choice([0.0, 30.0, 100.0])
        job = world.run_to_the_end()
        written = [number for (number,) in world.ask("select n from writes")]
        key = keyset.table_key(world.eye, made.table)
        by_key = {
            keyset.dump(page_key): row[0]
            for page in [keyset.page(world.eye, key, [NUMBER], "", {})]
            for page_key, row in zip(map(page.key, range(len(page))), page.rows, strict=True)
        }
        failed = [by_key[row_key] for (row_key,) in world.ask("select row_key from _enrichment_errors")]
        assert job.status is JobStatus.FINISHED
        assert sorted(written + failed) == sorted(numbers)
        assert (job.done_count, job.error_count) == (len(numbers), len(failed))
        assert all(text for (text,) in world.ask("select error from _enrichment_errors"))
        if written:
            held = dict(world.ask(f"select {quote(NUMBER)}, {OUT} from main.{quote(made.table)}"))
            assert all(str(held[number]) in (str(number), f"{number}.0") for number in written)


def enforce_foreign_keys(conn: sqlite3.Connection) -> None:
    conn.execute("commit")
    conn.execute("pragma foreign_keys = on")


def strictly(text: str) -> Any:
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


async def serve(path: pathlib.Path, made: Schema) -> None:
    """A job from its start over pause and retry to its CSV and JSON."""
    chance = random.Random(made.seed * 7 + 1)
    refuse = chance.sample(range(12), 4)
    name = chance.choice(["fresh", OUT, "message", "a\nb", "OUTCOME"])
    is_shadow, is_declared, has_keys_on = (chance.random() < share for share in (0.4, 0.6, 0.5))

    def enrich(row: Any) -> Any:
        if row[NUMBER] in refuse:
            raise ValueError(f"not {row[NUMBER]}")
        return {name: row[NUMBER]}

    made_up = by_row(
        enrich,
        column_types=lambda self, config: {name: "integer"} if is_declared else {},
        output=lambda self, config: "shadow" if is_shadow else "columns",
        batch_size=chance.choice([1, 3, 100]),
        default_max_errors=None,
    )
    with registered(made_up):
        async with serving(path) as datasette:
            cookies = cookies_of(datasette, ROOT)
            if has_keys_on:
                await compat.write(datasette.get_database("data"), enforce_foreign_keys)
            form = f"/-/ingest/data/{tilde_encode(made.table)}/e"
            answer = await datasette.client.get(f"{form}.json", cookies=cookies)
            assert answer.status_code in (200, 400) and strictly(answer.text)["ok"] is (answer.status_code == 200)
            assert (await datasette.client.get(form, cookies=cookies)).status_code == answer.status_code
            try:
                job = await start(datasette, made.table)
            except JobError as refusal:
                assert refusal.message and refusal.status == 400
                return
            await control.pause(datasette, "data", job.id, actor=ROOT)
            await run_until_idle(datasette)
            assert (await look(datasette, job)).done_count == 0
            await control.resume(datasette, "data", job.id, actor=ROOT)
            job = await to_the_end(datasette, job)
            total = rows(path, f"select count(*) from {quote(made.table)}")[0][0]
            assert (job.status, job.done_count) == (JobStatus.FINISHED, total), job.cancel_reason
            if is_shadow:
                stored = f"select count(*) from {quote('_enrichments_' + made.table)}"
                count = rows(path, stored)[0][0] if job.outcomes.get("success") else 0
                assert count == job.outcomes.get("success", 0)
            query = await failures.failure_query(datasette, datasette.get_database("data"), job, ROOT)
            assert len(set(map(str.lower, query.names))) == len(query.names)
            found = [row async for page in failures.pages(datasette.get_database("data"), query) for row in page]
            assert len(found) == job.error_count and all(len(row) == len(query.names) for row in found)
            assert all(row[-2] == "error" and row[-1] for row in found)
            "".join(map(line, [query.names, *found])).encode()
            page = f"/-/ingest-jobs/data/{job.id}"
            for address in (f"{page}.json", f"{page}/errors.json", "/-/ingest-jobs/data.json"):
                answer = await datasette.client.get(address, cookies=cookies)
                assert answer.status_code == 200 and strictly(answer.text)["ok"]
            for address in (page, f"{page}/errors", f"{page}/missed.csv"):
                assert (await datasette.client.get(address, cookies=cookies)).status_code == 200
            if job.error_count:
                again = await control.retry(datasette, "data", job.id, actor=ROOT, scope="errors")
                assert again.row_count == job.error_count
                again = await to_the_end(datasette, again)
                assert (again.status, again.done_count) == (JobStatus.FINISHED, job.error_count)
                assert len(await queries.errors(datasette.get_database("data"), again, limit=50)) == again.error_count


def whole_life(seed: int) -> None:
    made = schema_of(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "data.db"
        if not made.build(path):
            return
        try:
            if key_of(path, made.table) is not None:
                survive(path, made)
            path.unlink()
            made.build(path)
            asyncio.run(serve(path, made))
        except BaseException as problem:
            story = "\n".join([f"seed {seed}: {type(problem).__name__}: {problem}", *made.statements, str(made.rows)])
            raise AssertionError(story[:6000]) from problem


@pytest.mark.parametrize("seed", FEW)
def test_each_row_of_an_odd_table_is_enriched_once_or_refused(seed: int) -> None:
    whole_life(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
def test_each_row_of_many_odd_tables_is_enriched_once_or_refused(seed: int) -> None:
    whole_life(seed)


def test_most_of_the_odd_tables_can_be_made_and_enriched(tmp_path: pathlib.Path) -> None:
    built = [seed for seed in range(200) if schema_of(seed).build(tmp_path / f"{seed}.db")]
    keyed = [seed for seed in built if key_of(tmp_path / f"{seed}.db", schema_of(seed).table) is not None]
    assert len(built) > 150 and len(keyed) > 120
