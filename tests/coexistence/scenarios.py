"""What must hold while this project and datasette-enrichments share one Datasette and one database.

Run as `scenarios.py NAME DB` in an environment that has both; FIRST_PLUGIN names the one that was to load first.
A scenario holds when it returns.
"""

# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import sqlite3
import sys
import time
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import datasette.app  # noqa: F401 - first: it loads the plugins, which must not be half-imported by then
import pydantic
from datasette import hookimpl
from datasette.plugins import pm
from datasette_enrichments import Enrichment as TheirEnrichment
from datasette_enrichments import get_enrichments
from datasette_enrichments.utils import wait_for_job

from datasette_ingest import ColumnField, Enrichment, compat
from datasette_ingest.jobs import registry
from datasette_ingest.jobs.engine.worker import Worker
from datasette_ingest.jobs.model import Job, JobStatus, StartRequest
from datasette_ingest.jobs.service import control
from datasette_ingest.testing import run_until_idle

ROOT = {"id": "root"}
ROWS = 250
ORDER = ("datasette_ingest", "datasette_enrichments")


# ---- an enrichment on each side --------------------------------------------------------------------------------


class Shout(Enrichment):
    """Ours: upper-cases; `seconds` is how long a row takes."""

    slug, name, description = "shout", "Shout", "Upper-case a column"
    batch_size = 10

    class Config(pydantic.BaseModel):
        column: str = ColumnField("title", title="Column")
        seconds: float = 0.0

    async def enrich_row(self, row: Any, config: Any) -> dict[str, Any]:
        if config.seconds:
            await asyncio.sleep(config.seconds)
        return {"shouted": row[config.column].upper()}


class Whisper(TheirEnrichment):  # type: ignore[misc, unused-ignore]
    """Theirs: lower-cases."""

    slug, name, description = "whisper", "Whisper", "Lower-case a column"

    async def initialize(self, db: Any, table: str) -> None:
        columns = await db.table_columns(table)
        if "whispered" not in columns:
            await db.execute_write(f"alter table [{table}] add column whispered text")

    async def enrich_batch(self, db: Any, table: str, rows: list[dict[str, Any]]) -> int:
        for row in rows:
            sql = f"update [{table}] set whispered = ? where id = ?"
            await db.execute_write(sql, [row["title"].lower(), row["id"]])
        return len(rows)


class Twin(Whisper):
    """Theirs, under a slug that ours has, too."""

    slug, name = "shout", "Shout of theirs"


class BothSides:
    """A plugin that registers each with its own framework."""

    __name__ = "both-sides"

    def __init__(self, *theirs: TheirEnrichment) -> None:
        self._theirs = list(theirs)

    @hookimpl
    def register_ingest_enrichments(self, datasette: Any) -> list[Enrichment]:
        return [Shout()]

    @hookimpl
    def register_enrichments(self, datasette: Any) -> list[TheirEnrichment]:
        return self._theirs


# ---- the stage -------------------------------------------------------------------------------------------------


class Stage:
    """One Datasette with both plugins and one database of papers."""

    def __init__(self, instance: Any, path: pathlib.Path) -> None:
        self.datasette = instance
        self.path = path
        self.db = instance.databases[path.stem]
        self.cookies = {"ds_actor": instance.sign({"a": ROOT}, "actor")}

    async def get(self, path: str, *, status: int = 200) -> Any:
        """The response to root."""
        response = await self.datasette.client.get(path, cookies=self.cookies)
        assert response.status_code == status, f"GET {path}: {response.status_code}: {response.text[:500]}"
        return response

    async def press(self, path: str, token_page: str) -> int:
        """Submit one of their forms as a browser does; the status of the answer."""
        token = (await self.get(token_page)).cookies.get("ds_csrftoken")
        cookies = {**self.cookies, **({"ds_csrftoken": token} if token else {})}
        response = await self.datasette.client.post(
            path,
            data={"csrftoken": token} if token else {},
            cookies=cookies,
            headers={"Sec-Fetch-Site": "same-origin"},
        )
        return int(response.status_code)

    async def press_on_job(self, job_id: int, button: str) -> int:
        """One of the buttons on their page of a job."""
        page = f"/-/enrich/{self.db.name}/-/jobs/{job_id}"
        return await self.press(f"{page}/{button}", page)

    def all(self, sql: str, *arguments: Any) -> list[dict[str, Any]]:
        """Rows as another program reads them from the file."""
        with contextlib.closing(sqlite3.connect(self.path, timeout=10)) as conn:
            conn.row_factory = sqlite3.Row
            return [dict(row) for row in conn.execute(sql, arguments)]

    def one(self, sql: str, *arguments: Any) -> dict[str, Any]:
        (row,) = self.all(sql, *arguments)
        return row

    def change(self, sql: str, *arguments: Any) -> None:
        with contextlib.closing(sqlite3.connect(self.path, timeout=10)) as conn, conn:
            conn.execute(sql, arguments)

    def job(self, job_id: int) -> dict[str, Any]:
        return self.one("select * from _enrichment_jobs where id = ?", job_id)

    def written(self, column: str) -> int:
        return int(self.one(f"select count([{column}]) as n from papers")["n"])

    async def start_ours(self, **config: Any) -> Job:
        return await control.start(
            self.datasette, self.db.name, StartRequest("papers", enrichment="shout", config=config, actor=ROOT)
        )

    async def run_ours(self, **config: Any) -> int:
        job = await self.start_ours(**config)
        await run_until_idle(self.datasette)
        return job.id

    async def run_theirs(self, slug: str = "whisper") -> int:
        """Their job, from their form to its end."""
        form = f"/-/enrich/{self.db.name}/papers/{slug}"
        assert await self.press(form, form) == 302
        job_id = int(self.one("select max(id) as id from _enrichment_jobs")["id"])
        await wait_for_job(self.datasette, job_id, database=self.db.name, timeout=30)
        return job_id

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[Worker]:
        """A worker of ours while the block lasts, as a server has one."""
        worker = Worker(self.datasette, poll_seconds=0.05)
        task = asyncio.create_task(worker.run_forever())
        try:
            yield worker
        finally:
            worker.stop()
            await task


async def until(what: str, holds: Callable[[], Any], seconds: float = 10.0) -> None:
    """Wait for something that another task or program brings about."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def stage(path: pathlib.Path, *theirs: TheirEnrichment) -> AsyncIterator[Stage]:
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("create table papers (id integer primary key, title text)")
        conn.executemany("insert into papers (title) values (?)", [(f"Paper {n}",) for n in range(ROWS)])
    pm.register(BothSides(*theirs or (Whisper(),)), name="both-sides")
    instance = compat.open_datasette([str(path)], settings={"sql_time_limit_ms": 20_000}, with_root=True)
    await instance.invoke_startup()
    yield Stage(instance, path)
    compat.close(instance)


# ---- scenarios -------------------------------------------------------------------------------------------------


async def both_load(path: pathlib.Path) -> None:
    modules = [getattr(plugin, "__name__", "") for _, plugin in pm.list_name_plugin()]
    loaded = [name for name in modules if name in ORDER]
    assert sorted(loaded) == sorted(ORDER) and loaded[0] == os.environ["FIRST_PLUGIN"], loaded
    async with stage(path) as on:
        for page in ("/", "/data", "/data/papers", "/data/papers/1", "/-/ingest/data/papers", "/-/ingest-jobs"):
            await on.get(page)
        for page in ("/-/ingest/data/papers/shout", "/-/enrich/data/papers", "/-/enrich/data/papers/whisper"):
            await on.get(page)
        plugins = {plugin["name"] for plugin in (await on.get("/-/plugins.json")).json()}
        assert {"datasette-ingest", "datasette-enrichments"} <= plugins, plugins
        table = (await on.get("/data/papers")).text
        assert "/-/ingest/data/papers" in table and "/-/enrich/data/papers" in table, "a menu item is missing"


async def slugs_stay_apart(path: pathlib.Path) -> None:
    async with stage(path) as on:
        theirs = set(await get_enrichments(on.datasette))
        ours = set(await registry.enrichments(on.datasette))
        assert theirs == {"whisper"} and ours >= {"shout", "ingest"}, (theirs, ours)
        offering = {caller.plugin_name for caller in pm.hook.register_enrichments.get_hookimpls()}
        assert offering == {"both-sides"}, offering
        await on.get("/-/enrich/data/papers/shout", status=404)
        await on.get("/-/ingest/data/papers/whisper", status=404)


async def their_tables_first(path: pathlib.Path) -> None:
    async with stage(path) as on:
        theirs = await on.run_theirs()
        before = on.job(theirs)
        assert before["status"] == "finished" and "cost_nanodollars" not in before, before
        points = on.all("select * from _enrichment_progress")
        ours = await on.run_ours()
        after = on.job(theirs)
        assert {name: after[name] for name in before} == before, (before, after)
        kept = on.all("select * from _enrichment_progress where job_id = ?", theirs)
        assert kept == points, (kept, points)
        job = on.job(ours)
        assert (job["status"], job["done_count"], job["error_count"]) == ("finished", ROWS, 0), job
        assert (on.written("shouted"), on.written("whispered")) == (ROWS, ROWS)
        assert "traceback" in on.one("select group_concat(name) as c from pragma_table_info('_enrichment_errors')")["c"]
        again = await on.run_theirs()
        assert on.job(again)["done_count"] == ROWS, on.job(again)


async def our_tables_first(path: pathlib.Path) -> None:
    async with stage(path) as on:
        ours = await on.run_ours()
        before = on.job(ours)
        theirs = await on.run_theirs()
        job = on.job(theirs)
        assert (job["status"], job["done_count"], job["error_count"]) == ("finished", ROWS, 0), job
        assert on.written("whispered") == ROWS
        whisper = (await get_enrichments(on.datasette))["whisper"]
        await whisper.log_error(on.db, theirs, [5], "a word that it did not like")
        error = on.one("select * from _enrichment_errors where job_id = ?", theirs)
        assert json.loads(error["row_pks"]) == [5], error
        assert on.job(ours) == before
        assert on.job(await on.run_ours())["status"] == "finished"


async def our_jobs_on_their_pages(path: pathlib.Path) -> None:
    async with stage(path) as on:
        job_id = await on.run_ours()
        for status in JobStatus:
            on.change("update _enrichment_jobs set status = ? where id = ?", status.value, job_id)
            listed = (await on.get("/-/enrich/data/-/jobs")).text
            assert "shout" in listed and status.value in listed, status
            assert status.value in (await on.get(f"/-/enrich/data/-/jobs/{job_id}")).text, status
            progress = (await on.get(f"/-/enrichment-jobs/data/{job_id}")).json()
            assert progress["total"] == ROWS, progress
            assert sum(section["count"] for section in progress["sections"]) == ROWS, progress
            await on.get("/data/papers")
            await on.get("/data")
        fresh = await on.start_ours()
        await on.get(f"/-/enrich/data/-/jobs/{fresh.id}")
        assert (await on.get(f"/-/enrichment-jobs/data/{fresh.id}")).json()["total"] == ROWS


async def their_jobs_on_our_pages(path: pathlib.Path) -> None:
    async with stage(path) as on:
        theirs = await on.run_theirs()
        await on.get("/-/ingest-jobs")
        await on.get("/-/ingest-jobs/data")
        await on.run_ours()
        for status in JobStatus:
            on.change("update _enrichment_jobs set status = ? where id = ?", status.value, theirs)
            for page in ("/-/ingest-jobs", "/-/ingest-jobs/data", f"/-/ingest-jobs/data/{theirs}", "/data/papers"):
                await on.get(page)
            job = (await on.get(f"/-/ingest-jobs/data/{theirs}.json")).json()["job"]
            assert (job["enrichment"], job["done_count"]) == ("whisper", ROWS), job


async def their_pause_button(path: pathlib.Path) -> None:
    async with stage(path) as on:
        on.change("create table written (id integer)")
        on.change("alter table papers add column shouted text")
        on.change("create trigger t after update of shouted on papers begin insert into written values (new.id); end")
        async with on.working():
            job_id = (await on.start_ours(seconds=0.005)).id
            await until("the job has begun", lambda: on.job(job_id)["done_count"] > 0)
            assert await on.press_on_job(job_id, "pause") == 302
            await until("no reservation of it is held", lambda: not held(on, job_id), 1.5)
            paused = on.job(job_id)
            assert paused["status"] == "paused" and 0 < paused["done_count"] < ROWS, paused
            await asyncio.sleep(0.6)
            assert on.job(job_id) == paused
            assert on.written("shouted") == paused["done_count"], "what was finished is kept, and counted"
            await control.resume(on.datasette, "data", job_id, actor=ROOT)
            await until("the job is finished", lambda: on.job(job_id)["status"] == "finished")
        job = on.job(job_id)
        assert (job["done_count"], job["error_count"]) == (ROWS, 0), job
        writes = on.all("select id, count(*) as n from written group by id")
        assert len(writes) == ROWS and {row["n"] for row in writes} == {1}, "each row is written exactly once"


def held(on: Stage, job_id: int) -> list[dict[str, Any]]:
    return on.all("select * from _enrichment_batches where job_id = ? and leased_by is not null", job_id)


async def their_cancel_button(path: pathlib.Path) -> None:
    async with stage(path) as on:
        async with on.working():
            job_id = (await on.start_ours(seconds=0.005)).id
            await until("the job has begun", lambda: on.job(job_id)["done_count"] > 0)
            assert await on.press_on_job(job_id, "cancel") == 302
            await until("its reservations are gone", lambda: not on.all("select * from _enrichment_batches"), 1.5)
            await asyncio.sleep(0.2)
        job = on.job(job_id)
        assert job["status"] == "cancelled" and 0 < job["done_count"] < ROWS, job
        assert on.written("shouted") == job["done_count"]
        waiting = await on.start_ours()
        assert await on.press_on_job(waiting.id, "cancel") == 302
        await run_until_idle(on.datasette)
        assert (on.job(waiting.id)["status"], on.job(waiting.id)["done_count"]) == ("cancelled", 0)


async def their_resume_button(path: pathlib.Path) -> None:
    async with stage(path) as on:
        job = await on.start_ours()
        await control.pause(on.datasette, "data", job.id, actor=ROOT)
        with contextlib.suppress(KeyError):  # they know no such slug, and find out after they have changed the status
            await on.press_on_job(job.id, "resume")
        assert on.job(job.id)["status"] == "running", on.job(job.id)
        await run_until_idle(on.datasette)
        assert (on.job(job.id)["status"], on.written("shouted")) == ("finished", ROWS)


async def running_without_a_reservation(path: pathlib.Path) -> None:
    async with stage(path) as on:
        job = await on.start_ours()
        on.change("update _enrichment_jobs set status = 'running' where id = ?", job.id)
        assert not on.all("select * from _enrichment_batches")
        await run_until_idle(on.datasette)
        found = on.job(job.id)
        assert (found["status"], found["done_count"], on.written("shouted")) == ("finished", ROWS, ROWS), found


async def their_jobs_left_alone(path: pathlib.Path) -> None:
    async with stage(path) as on:
        job_id = await on.run_theirs()
        await on.run_ours()
        for status in JobStatus:
            on.change("update _enrichment_jobs set status = ?, next_cursor = '100' where id = ?", status.value, job_id)
            before = on.job(job_id)
            await asyncio.wait_for(run_until_idle(on.datasette), 10)  # nor is it waited for
            assert on.job(job_id) == before, (before, on.job(job_id))
        assert not on.all("select * from _enrichment_batches where job_id = ?", job_id)


async def one_slug_on_both_sides(path: pathlib.Path) -> None:
    """A plugin that serves both frameworks under one name."""
    async with stage(path, Twin()) as on:
        theirs = await on.run_theirs("shout")
        ours = await on.run_ours()
        assert on.job(ours)["status"] == "finished", on.job(ours)
        for status in ("pending", "running"):
            on.change("update _enrichment_jobs set status = ?, next_cursor = '100' where id = ?", status, theirs)
            before = on.job(theirs)
            await asyncio.wait_for(run_until_idle(on.datasette), 10)
            assert on.job(theirs) == before, (before, on.job(theirs))


async def one_server_for_both(path: pathlib.Path) -> None:
    import uvicorn

    async with stage(path) as on:
        app = on.datasette.app()
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="on"))
        serving = asyncio.create_task(server.serve())
        await until("the server has started", lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        body = {"table": "papers", "enrichment": "shout", "config": {"seconds": 0.002}}
        job_id = (await asyncio.to_thread(post_json, port, "/-/ingest-jobs/data", body, on.cookies))["job"]["id"]
        theirs = await on.run_theirs()
        await until("our job is finished", lambda: on.job(job_id)["status"] == "finished", 20)
        server.should_exit = True
        await serving
        assert (on.written("shouted"), on.written("whispered")) == (ROWS, ROWS)
        assert (on.job(theirs)["done_count"], on.job(job_id)["done_count"]) == (ROWS, ROWS)


def post_json(port: int, path: str, body: dict[str, Any], cookies: dict[str, str]) -> dict[str, Any]:
    import http.client

    crumbs = "; ".join(f"{name}={urllib.parse.quote(value)}" for name, value in cookies.items())
    headers = {"Content-Type": "application/json", "Cookie": crumbs, "Sec-Fetch-Site": "same-origin"}
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    client.request("POST", path, json.dumps(body), headers)
    answer = client.getresponse()
    text = answer.read()
    client.close()
    assert answer.status == 201, (answer.status, text[:500])
    found: dict[str, Any] = json.loads(text)
    return found


SCENARIOS: dict[str, Callable[[pathlib.Path], Awaitable[None]]] = {
    scenario.__name__: scenario
    for scenario in (
        both_load,
        slugs_stay_apart,
        their_tables_first,
        our_tables_first,
        our_jobs_on_their_pages,
        their_jobs_on_our_pages,
        their_pause_button,
        their_cancel_button,
        their_resume_button,
        running_without_a_reservation,
        their_jobs_left_alone,
        one_slug_on_both_sides,
        one_server_for_both,
    )
}


async def play(name: str, path: pathlib.Path) -> None:
    await SCENARIOS[name](path)
    print(f"{name}: held", flush=True)


if __name__ == "__main__":
    asyncio.run(play(sys.argv[1], pathlib.Path(sys.argv[2])))
