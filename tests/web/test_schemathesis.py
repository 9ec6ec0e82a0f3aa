"""Schemathesis, told only what the OpenAPI document says, finds no answer that the document does not foresee."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import pathlib
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from datasette import hookimpl
from datasette.plugins import pm

from datasette_ingest.testing import run_until_idle

from ..conftest import missing
from .conftest import ROOT, start
from .test_browser import Served, words  # noqa: F401 - a fixture

pytestmark = pytest.mark.slow

SEED = 20_261_130
SECONDS = 240
"""How long the run may take on a busy machine; alone it takes about a minute."""
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
)
"""Not among them: that Allow names what the document does, for the pages are not in it; and that every well-formed
request succeeds, for names and filters are about a table that the generator does not know."""
HOOKS = '''
"""Half of the requests are about what is there: a generated name alone would only ever meet a 404."""
import random

import schemathesis

chance = random.Random(1)
THERE = {"database": "words", "table": "words", "slug": "shout"}


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    if path_parameters and chance.random() < 0.75:
        path_parameters = {name: THERE.get(name, value) for name, value in path_parameters.items()}
        if "id" in path_parameters:
            path_parameters["id"] = chance.randint(1, 4)
    return path_parameters


@schemathesis.hook
def map_body(context, body):
    if isinstance(body, dict) and "table" in body and chance.random() < 0.75:
        body = {**body, "table": "words"}
        if isinstance(body.get("config"), dict) and chance.random() < 0.75:
            body["config"] = {**body["config"], **{name: "word" for name in ("column", "url_column")}}
        if chance.random() < 0.75:
            body.pop("filters", None)
    return body
'''


class TokenHolder:
    """Whoever has the token is root."""

    __name__ = "token holder"

    @hookimpl
    def actor_from_request(self, request: Any) -> Any:
        return ROOT if request.headers.get("authorization") == "Bearer open-sesame" else None


@pytest.fixture
def served(words: pathlib.Path, shout: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:  # noqa: F811
    """The words with a job that is over and one of each other kind; nobody runs them."""
    # where rich is installed, as with our tools, Datasette 0.65 fails on each 404 that it wants rich to print
    monkeypatch.setattr("datasette.handle_exception.rich", None)
    plugin = TokenHolder()
    pm.register(plugin)
    here = Served(words, {"plugins": {"datasette-ingest": {"run_jobs": False}}})

    async def add_jobs() -> None:
        await start(here.datasette)
        await run_until_idle(here.datasette)
        for status in ("pending", "paused", "cancelled"):
            job = await start(here.datasette)
            await here.datasette.databases["words"].execute_write(
                "update _enrichment_jobs set status = ? where id = ?", [status, job.id]
            )

    asyncio.run(add_jobs())
    yield here
    here.stop()
    pm.unregister(plugin)


def test_no_answer_is_unforeseen(served, words, tmp_path):  # noqa: F811 - the fixture
    if importlib.util.find_spec("schemathesis") is None:
        missing("schemathesis")
    (tmp_path / "hooks.py").write_text(HOOKS)
    ran = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "run", f"{served.origin}/-/ingest-api.json",
            "--header", "Authorization: Bearer open-sesame",
            "--checks", ",".join(CHECKS),
            "--phases", "coverage,fuzzing",
            "--max-examples", "25",
            "--seed", str(SEED),
            "--generation-deterministic",
            "--continue-on-failure",
            "--warnings", "off",
            "--no-color",
        ],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2_000:]
    assert "No issues found" in ran.stdout
    # it did get past the door: jobs were started, and each state was met
    with contextlib.closing(sqlite3.connect(words)) as conn:
        found = dict(conn.execute("select status, count(*) from _enrichment_jobs group by status").fetchall())
    assert sum(found.values()) > 10, found
