"""The documentation says what is so: generated parts are current, everything has its place, and examples work."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import re
import shlex
import sqlite3
import sys
from collections.abc import Iterator
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner
from cogapp import Cog
from datasette import hookimpl
from datasette.cli import cli as datasette_cli
from datasette.plugins import pm

import datasette_ingest
from datasette_ingest import BatchOutcome, Enrichment, settings, testing
from datasette_ingest.cli import ingest
from datasette_ingest.ingest import schema as results
from datasette_ingest.ingest.enrichment import RESULT_COLUMNS, IngestConfig
from datasette_ingest.ingest.errors import NOT_TRIED, STATUSES, SUCCESS
from datasette_ingest.jobs import schema as engine
from datasette_ingest.jobs.enrichment import CONTEXT_NAMES
from datasette_ingest.web.routes import ROUTES

from .conftest import ROOT, rows, serving

PROJECT = pathlib.Path(__file__).resolve().parents[1]
DOCS = PROJECT / "docs"
PAGES = {path.relative_to(PROJECT).as_posix(): path for path in (PROJECT / "README.md", *sorted(DOCS.glob("*.md")))}

FIRST_COMMANDS = [
    "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/datasette ingest demo",
    "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/pytest",
]


def text(page: str) -> str:
    return PAGES[page].read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """The contents of the page's code blocks in this language; '' for those that name none."""
    return [content for named, content in fenced(page) if named == language]


def fenced(page: str) -> list[tuple[str, str]]:
    """(language, content) of each code block, in order."""
    return re.findall(r"^```(\w*)\n(.*?)^```$\n?", text(page), re.MULTILINE | re.DOTALL)


def headings(page: str) -> list[str]:
    without_code = re.sub(r"^```\w*\n.*?^```$", "", text(page), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^#+ (.+)$", without_code, re.MULTILINE)


def first_cells(page: str) -> set[str]:
    """The words in code type that begin a row of a table of the page."""
    return set(re.findall(r"^\| `([^`]+)`", text(page), re.MULTILINE))


def commands(group: click.Group = ingest, path: tuple[str, ...] = ()) -> dict[str, click.Command]:
    """Every command by the words that follow `datasette ingest`."""
    found: dict[str, click.Command] = {}
    for name, command in group.commands.items():
        here = (*path, name)
        found |= commands(command, here) if isinstance(command, click.Group) else {" ".join(here): command}
    return found


# ---- complete and current ---------------------------------------------------------------------------------------


def test_the_generated_parts_are_what_the_code_says_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("COLUMNS", "40")  # the width of a terminal must not show
    Cog().callable_main(["cog", "--check", *PAGES])


@pytest.mark.parametrize("name", commands())
def test_every_command_is_described_and_its_help_has_an_example(name: str) -> None:
    assert name in headings("docs/cli.md")
    assert f"Usage: datasette ingest {name} " in text("docs/cli.md")
    assert f"Example: datasette ingest {name} " in (commands()[name].help or "")


def test_every_setting_is_described() -> None:
    assert set(settings._FIELDS) <= first_cells("docs/configuration.md")
    assert set(IngestConfig.model_fields) <= first_cells("docs/configuration.md")


def test_every_table_and_view_is_described() -> None:
    assert {*engine.TABLES, *results.TABLES} <= set(headings("docs/tables.md"))
    assert all(name in text("docs/tables.md") for name in results.VIEWS)


def test_every_column_that_a_row_gets_is_described() -> None:
    assert {f"ingest_{name}" for name in RESULT_COLUMNS} <= first_cells("README.md")


def test_every_status_is_described() -> None:
    assert {SUCCESS, *STATUSES} <= first_cells("docs/statuses.md")
    assert f"`{NOT_TRIED}`" in text("docs/statuses.md")


def test_every_address_is_described() -> None:
    described = set(re.findall(r"`(/-/[^`]+)`", text("docs/api.md")))
    for pattern, _ in ROUTES:
        path = pattern.removeprefix("^").removesuffix("$").replace(r"(?P<format>\.json)?", "")
        path = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"{\1}", path)
        assert {path, path + ".json"} & described, path


def test_every_name_for_authors_is_described() -> None:
    described = set(re.findall(r"\b(\w+)\b", text("docs/enrichments.md")))
    offered = {name for name in vars(Enrichment) if not name.startswith("_")} - {"is_row_by_row"}
    assert offered | set(datasette_ingest.__all__) | CONTEXT_NAMES <= described
    assert {field.name for field in dataclasses.fields(BatchOutcome)} <= described


def test_links_within_the_project_resolve() -> None:
    for page, path in PAGES.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", text(page)):
            if target.startswith(("http://", "https://")):
                continue
            name, _, anchor = target.partition("#")
            file = (path.parent / name).resolve() if name else path
            assert file.exists(), f"{page}: {target}"
            if anchor:
                inside = file.relative_to(PROJECT).as_posix()
                assert anchor in {slug(heading) for heading in headings(inside)}, f"{page}: {target}"


def slug(heading: str) -> str:
    """A heading's anchor, as the common renderers make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_page_can_be_reached_from_the_index() -> None:
    linked = set(re.findall(r"\]\(([a-z]+\.md)\)", text("docs/index.md")))
    assert linked == {path.name for path in DOCS.glob("*.md")} - {"index.md"}


def test_the_first_two_commands_of_the_readme_install_and_test() -> None:
    found = [line for line in text("README.md").splitlines() if line.startswith("python3 -m venv")]
    assert found == FIRST_COMMANDS
    assert all(block.strip() in FIRST_COMMANDS for block in blocks("README.md", "bash")[:2])


# ---- examples that load and run ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "content"),
    [(page, block) for page in PAGES for block in blocks(page, "yaml")],
    ids=lambda value: value[:24],
)
def test_a_configuration_shown_can_be_used(page: str, content: str) -> None:
    found = yaml.safe_load(content)
    assert isinstance(found, dict)
    for holder in _levels(found):
        settings.load(holder.get("plugins", {}).get("datasette-ingest"))


def _levels(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield config
    for database in config.get("databases", {}).values():
        yield database
        yield from database.get("tables", {}).values()


def shown_commands() -> list[tuple[str, str]]:
    """(page, command line) of each `datasette ingest …` in a shell block."""
    return [
        (page, line.partition("|")[0])
        for page in PAGES
        for block in blocks(page, "bash")
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("datasette ingest ")
    ]


@pytest.mark.parametrize(("page", "line"), shown_commands())
def test_a_command_shown_is_one_that_the_program_takes(
    page: str, line: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("papers.db", "journals.db", "backup.db"):
        sqlite3.connect(name).close()
        pathlib.Path(name).touch()
    pathlib.Path("metadata.yml").write_bytes((PROJECT / "metadata.yml").read_bytes())
    words = shlex.split(line)[2:]
    command: click.Command = ingest
    while isinstance(command, click.Group):
        command = command.commands[words.pop(0)]
    command.make_context(command.name, words).close()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, str]:
    """(the demo's database, what the demo printed)."""
    path = tmp_path_factory.mktemp("demo") / "ingest-demo.db"
    result = CliRunner().invoke(datasette_cli, ["ingest", "demo", str(path)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return path, result.stdout


def test_the_readme_shows_what_the_demo_prints(demo: tuple[pathlib.Path, str]) -> None:
    path, printed = demo
    port = re.search(r"http://127\.0\.0\.1:(\d+)$", printed, re.MULTILINE)
    assert port
    expected = (
        printed.replace(f"datasette {path}", ".venv/bin/datasette ingest-demo.db")
        .replace(str(path), "ingest-demo.db")
        .replace(f":{port[1]}", ":40123")
    )
    assert expected in blocks("README.md", "")


@pytest.mark.parametrize("query", [block for block in blocks("docs/tables.md", "sql") if block.startswith("select")])
def test_a_query_shown_runs_over_the_tables_that_it_names(demo: tuple[pathlib.Path, str], query: str) -> None:
    assert isinstance(rows(demo[0], query), list)


def test_the_removal_shown_leaves_nothing_of_ours(demo: tuple[pathlib.Path, str], tmp_path: pathlib.Path) -> None:
    copy = tmp_path / "copy.db"
    with contextlib.closing(sqlite3.connect(demo[0])) as before, contextlib.closing(sqlite3.connect(copy)) as conn:
        before.backup(conn)
        (script,) = blocks("docs/operating.md", "sql")
        conn.executescript(script)
    assert rows(copy, "select name from sqlite_master where type in ('table', 'view') order by name") == [
        ("_sqlite_migrations",),
        ("papers",),
    ]
    dropped = re.findall(r"--drop (\w+)", text("docs/operating.md"))
    assert dropped == [f"ingest_{name}" for name in RESULT_COLUMNS]


@contextlib.contextmanager
def plugin_of(source: str) -> Iterator[dict[str, Any]]:
    """The module that this source makes, registered as a plugin while the block lasts."""
    module: dict[str, Any] = {"__name__": "shown"}
    exec(compile(source, "enrichments.md", "exec"), module)

    class Plugin:
        __name__ = "shown"
        register_ingest_enrichments = staticmethod(module["register_ingest_enrichments"])

    plugin = Plugin()
    pm.register(plugin, name="shown")
    try:
        yield module
    finally:
        pm.unregister(plugin)


def enrichment_example(slug: str) -> str:
    (found,) = [block for block in blocks("docs/enrichments.md", "python") if f' = "{slug}", ' in block]
    return found


async def test_the_first_enrichment_shown_passes_the_test_that_is_shown() -> None:
    (test,) = [block for block in blocks("docs/enrichments.md", "python") if "def test_" in block]
    module: dict[str, Any] = {}
    exec(compile(test, "enrichments.md", "exec"), module)
    with plugin_of(enrichment_example("shout")):
        await module["test_it_shouts"]()


async def test_the_enrichment_with_batches_scores_counts_pauses_and_costs() -> None:
    given = [{"word": "one"}, {"word": "three"}, {"word": None}, {"word": "closed"}]
    with plugin_of(enrichment_example("score")):
        async with testing.table_of(given) as table:
            job = await table.run("score", {"column": "word"}, options={"batch_size": 3, "max_open_batches": 1})
            found = [row["score"] for row in await table.rows()]
            errors = [error.error for error in await table.errors(job)]
    assert (job.status.value, job.pause_reason) == ("paused", "The service is closed")
    assert found == [3, 5, None, None]
    assert errors == ["There is nothing to score"]
    assert (job.done_count, job.cost_nanodollars, job.state) == (3, 750_000, {"asked": 3})


async def test_a_budget_stops_the_priced_enrichment_before_it_is_passed() -> None:
    with plugin_of(enrichment_example("score")):
        async with testing.table_of([{"word": "one"}] * 4) as table:
            options = {"batch_size": 1, "max_open_batches": 1, "budget_100ths_cent": 6}
            job = await table.run("score", {"column": "word"}, options=options)
    assert (job.status.value, job.done_count, job.cost_nanodollars) == ("paused", 2, 500_000)


# ---- the JSON API -----------------------------------------------------------------------------------------------


@pytest.fixture
def papers(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "papers.db"
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("create table papers (id integer primary key, url text, year integer)")
        found = [("http://a.invalid/", year) for year in (2019, 2020, 2021)]
        conn.executemany("insert into papers (url, year) values (?, ?)", found)
    return path


async def test_the_request_shown_starts_a_job_and_the_answer_has_what_is_shown(papers: pathlib.Path) -> None:
    request, shown, *_ = (json.loads(block) for block in blocks("docs/api.md", "json"))
    async with serving(papers) as datasette:
        answer = await post(datasette, "/-/ingest-jobs/papers", request)
        again = await post(datasette, "/-/ingest-jobs/papers", request, key="one of mine")
        repeated = await post(datasette, "/-/ingest-jobs/papers", request, key="one of mine")
    assert answer.status_code == 201
    assert answer.headers["location"] == shown["job"]["url"]
    assert shown["ok"] is answer.json()["ok"] is True
    assert answer.json()["job"].items() >= shown["job"].items()
    assert again.json()["job"]["id"] == repeated.json()["job"]["id"] == 2


async def test_the_keys_that_are_described_are_those_of_a_job(papers: pathlib.Path) -> None:
    request = json.loads(blocks("docs/api.md", "json")[0])
    async with serving(papers) as datasette:
        job = (await post(datasette, "/-/ingest-jobs/papers", request)).json()["job"]
    columns = set(engine.TABLES["_enrichment_jobs"]) - {"request_key"}
    described = set(
        re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| `\w+`[^|]*\|", text("docs/api.md"), re.MULTILINE)))
    )
    assert set(job) - columns <= described
    assert columns <= set(job)


async def test_the_refusal_shown_is_what_a_wrong_column_gets(papers: pathlib.Path) -> None:
    request, _, _, shown = (json.loads(block) for block in blocks("docs/api.md", "json"))
    request["config"]["url_column"] = "link"
    async with serving(papers) as datasette:
        answer = await post(datasette, "/-/ingest-jobs/papers", request)
    assert (answer.status_code, answer.json()) == (shown["status"], shown)


class SignedIn:
    """A plugin for which everybody is root, as a token would say."""

    __name__ = "signed in"

    @hookimpl
    def actor_from_request(self) -> dict[str, str]:
        return ROOT


async def post(datasette: Any, path: str, body: Any, *, key: str | None = None) -> Any:
    """As a program does: JSON, no cookie."""
    headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
    plugin = SignedIn()
    pm.register(plugin)
    try:
        return await datasette.client.post(path, content=json.dumps(body), headers=headers)
    finally:
        pm.unregister(plugin)
