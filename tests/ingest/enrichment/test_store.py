"""A job keeps the files that it finds; where it cannot, it pauses, and no row is lost or in error."""

from __future__ import annotations

import errno
import os
import pathlib
from collections.abc import Callable

import pytest

from datasette_ingest.ingest.sinks import s3
from datasette_ingest.jobs import registry
from datasette_ingest.jobs.model import JobStatus, StartRequest
from datasette_ingest.jobs.service import control, dry_run, permissions, queries
from datasette_ingest.testing import run_until_idle

from ...conftest import ROOT, rows, serving
from ..origin import PDF, Origin, pdf
from .test_jobs import QUICK, ingest, table


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "data.db"


def files(store: pathlib.Path) -> dict[str, bytes]:
    return {each.relative_to(store).as_posix(): each.read_bytes() for each in store.rglob("*") if each.is_file()}


async def test_the_files_of_hits_are_kept_where_the_table_says(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    pages = {f"/{number}.pdf": pdf(PDF + b"%%%d\n" % number) for number in range(3)}
    async with Origin(pages) as site:
        table(path, [*map(site.url, pages), site.url("/0.pdf?again"), site.url("/gone"), None])
        site.handlers["/0.pdf?again"] = pages["/0.pdf"]
        async with serving(path, plugin={**QUICK, "store": str(tmp_path / "kept")}) as datasette:
            job = await ingest(datasette)
    assert job.outcomes == {"success": 4, "terminal-bad-status": 1, "invalid-url": 1}
    hits = rows(path, "select distinct ingest_terminal_sha1hex from papers where ingest_hit = 1")
    assert set(files(tmp_path / "kept")) == {f"body/{sha1[:2]}/{sha1[2:4]}/{sha1}.pdf" for (sha1,) in hits}
    assert set(files(tmp_path / "kept").values()) == {PDF + b"%%%d\n" % number for number in range(3)}
    assert "kept" not in str(rows(path, "select config, options, state from _enrichment_jobs"))


def refusing(left: int) -> Callable[[int], None]:
    """Makes so many things durable before the disk is full."""
    synced, sync = 0, os.fsync

    def fsync(handle: int) -> None:
        nonlocal synced
        synced += 1
        if synced > left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    return fsync


@pytest.mark.parametrize("batch_size", [1, 4])
async def test_a_disk_that_fills_up_pauses_the_job_which_goes_on_where_it_was(
    path: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, batch_size: int
) -> None:
    names = [f"/{number}.pdf" for number in range(12)]
    async with Origin({name: pdf(PDF + name.encode()) for name in names}) as site:
        table(path, map(site.url, names))
        async with serving(path, plugin={**QUICK, "concurrency": 2, "store": str(tmp_path / "kept")}) as datasette:
            request = StartRequest("papers", enrichment="ingest", actor=ROOT, options={"batch_size": batch_size})
            job = await control.start(datasette, "data", request)
            monkeypatch.setattr(os, "fsync", refusing(20))
            await run_until_idle(datasette)
            job = await queries.find(datasette, "data", job.id, actor=ROOT)
            assert (job.status, job.error_count, job.resume_at) == (JobStatus.PAUSED, 0, None)
            assert job.pause_reason == f"The store {tmp_path / 'kept'} cannot be written: No space left on device"
            named = rows(path, "select count(distinct terminal_sha1hex) from ingest_file_result where hit")[0][0]
            assert 0 < len(files(tmp_path / "kept")) < 12 and named <= len(files(tmp_path / "kept"))
            asked = len(site.targets)
            await control.resume(datasette, "data", job.id, actor=ROOT)
            await run_until_idle(datasette)
            assert len(site.targets) == asked, "nothing is fetched that cannot be kept"
            monkeypatch.undo()
            await control.resume(datasette, "data", job.id, actor=ROOT)
            await run_until_idle(datasette)
            job = await queries.find(datasette, "data", job.id, actor=ROOT)
    assert (job.status, job.outcomes, job.error_count) == (JobStatus.FINISHED, {"success": 12}, 0)
    assert set(files(tmp_path / "kept").values()) == {PDF + name.encode() for name in names}


async def test_a_service_that_does_not_answer_pauses_the_job_until_a_time(
    path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "RETRIES", {"max_retries": 0})
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "hunter2")
    async with Origin({"/p.pdf": pdf()}) as site:
        table(path, [site.url("/p.pdf")])
        plugin = {**QUICK, "store": "s3://bodies/x", "store_endpoint": "http://127.0.0.1:9"}
        async with serving(path, plugin=plugin) as datasette:
            job = await ingest(datasette)
            assert not site.targets
    assert job.status is JobStatus.PAUSED and job.resume_at is not None
    assert str(job.pause_reason).startswith("The store s3://bodies/x cannot be read: ")
    assert "hunter2" not in str(rows(path, "select * from _enrichment_jobs")) + str(job.pause_reason)


async def test_a_dry_run_keeps_nothing(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    async with Origin({"/p.pdf": pdf()}) as site:
        table(path, [site.url("/p.pdf")])
        async with serving(path, plugin={**QUICK, "store": str(tmp_path / "kept")}) as datasette:
            papers = await permissions.require_table(datasette, ROOT, "data", "papers")
            enrichment = await registry.enrichment(datasette, "ingest")
            config = {"url_column": "url"}
            shown = await dry_run.run(datasette, papers, enrichment=enrichment, config=config, actor=ROOT)
            assert site.targets == ["/p.pdf"] and "success" in str(shown)
            assert not (tmp_path / "kept").exists()
            await ingest(datasette)
    assert site.targets == ["/p.pdf"] * 2 and len(files(tmp_path / "kept")) == 1
