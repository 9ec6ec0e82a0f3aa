"""The documentation says what is so: generated parts are current, everything has its place, and examples work."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
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
from datasette_ingest import BatchOutcome, Enrichment, compat, settings, testing
from datasette_ingest.cli import ingest
from datasette_ingest.ingest import linkrule
from datasette_ingest.ingest import schema as results
from datasette_ingest.ingest.datasets import collect, manifest
from datasette_ingest.ingest.enrichment import IngestConfig
from datasette_ingest.ingest.enrichment.rows import RESULT_COLUMNS
from datasette_ingest.ingest.errors import NOT_TRIED, STATUSES, SUCCESS
from datasette_ingest.ingest.page.biblio import DOI_MISMATCH
from datasette_ingest.ingest.page.links import scoring
from datasette_ingest.ingest.page.phrases import read_files
from datasette_ingest.ingest.page.read import read_page
from datasette_ingest.ingest.remote import parking, topics, worker
from datasette_ingest.ingest.settings import CrawlSettings
from datasette_ingest.ingest.types.pdf import MISSING_EOF
from datasette_ingest.jobs import leases, results_log, selection
from datasette_ingest.jobs import schema as engine
from datasette_ingest.jobs.enrichment import CONTEXT_NAMES
from datasette_ingest.jobs.model import JobOptions, JobStatus, StartRequest
from datasette_ingest.jobs.service import control, dry_run, job_json, row_filters, selection_preview
from datasette_ingest.web import banners, job_page, jobs_list
from datasette_ingest.web.routes import ROUTES

from .conftest import ROOT, rows, serving
from .shown_pages import DOCS, FIRST_COMMANDS, PAGES, PROJECT, blocks, first_cells, headings, text, without_blocks

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


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
    assert set(settings.Settings.model_fields) <= first_cells("docs/configuration.md")
    assert set(settings.KafkaSettings.model_fields) <= first_cells("docs/configuration.md")
    assert set(IngestConfig.model_fields) <= first_cells("docs/configuration.md")


def test_every_extra_is_described() -> None:
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    described = first_cells("docs/configuration.md")
    assert {f"datasette-ingest[{name}]" for name in extras} - described == {"datasette-ingest[test]"}


@pytest.mark.parametrize(("line", "key"), [("stroe: files", "stroe"), ("timeout: soon", "timeout")])
def test_a_datasette_with_a_wrong_setting_does_not_start_and_says_so_in_a_line(
    line: str, key: str, papers: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "wrong.yaml").write_text(f"plugins:\n  datasette-ingest:\n    {line}\n", "utf-8")
    words = [str(papers), EXAMPLE_FILES["metadata.yml"], str(tmp_path / "wrong.yaml"), "--get", "/"]
    refused = CliRunner().invoke(datasette_cli, words)
    assert refused.exit_code == 1 and isinstance(refused.exception, SystemExit)
    assert refused.output.startswith("Error: ") and key in refused.output and refused.output.count("\n") == 1


def test_every_table_and_view_is_described() -> None:
    assert {*engine.TABLES, *results.TABLES} <= set(headings("docs/tables.md"))
    assert all(name in text("docs/tables.md") for name in results.VIEWS)


def test_every_column_that_a_row_gets_is_described() -> None:
    assert {f"ingest_{name}" for name in RESULT_COLUMNS} <= first_cells("README.md")


def test_every_status_is_described() -> None:
    assert {SUCCESS, *STATUSES} <= first_cells("docs/statuses.md")
    assert f"`{NOT_TRIED}`" in text("docs/statuses.md")


def test_every_filter_and_every_state_of_a_job_is_described() -> None:
    page = text("docs/web.md")
    assert all(f"{name}=" in page for name in selection.OWN_FILTERS | {"_again", "_retry"})
    assert {status.value for status in JobStatus} <= set(re.findall(r"^\| (\w+) \|", page, re.MULTILINE))


DATASETTES_OWN = " Facet by this, Table actions "
"""What Datasette's own pages offer."""


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_says_to_press_stands_on_the_web_pages(page: str) -> None:
    package = PROJECT / "datasette_ingest"
    folders = [package / folder for folder in ("templates", "static", "web", "ingest")]
    sources = [path for folder in folders for kind in ("*.html", "*.js", "*.py") for path in folder.rglob(kind)]
    buttons = " ".join(step.capitalize() for step in job_json.STEPS)
    shown = squeezed(" ".join(path.read_text("utf-8") for path in sources)) + DATASETTES_OWN + buttons
    for label in re.findall(r"(?<![*\w])\*([A-Z][^*]+)\*(?![*\w])", without_blocks(page)):
        fixed = re.split(r"[\d:(·]", squeezed(label))[0].strip()  # the numbers in it are an example's
        assert fixed in shown, label


def squeezed(words: str) -> str:
    return " ".join(words.split())


@pytest.mark.parametrize(
    ("page", "sentence", "numbers"),
    [
        (
            "docs/candidates.md",
            "From {} points on a link is tried; none is trusted more than {}",
            (scoring.MIN_SCORE, scoring.MAX_SCORE),
        ),
        ("docs/candidates.md", "0 to 100; {} if left out", (linkrule.DEFAULT_TRUST,)),
        ("docs/web.md", "{:,} rows can be ticked", (row_filters.MAX_ROWS,)),
        ("docs/web.md", "at most {} reasons, each", (leases.MOST_WAITS,)),
        ("docs/api.md", "at most {} reasons, those of the most rows first", (leases.MOST_WAITS,)),
        ("docs/enrichments.md", "`max_deferred_rows` of them ({:,})", (Enrichment.max_deferred_rows,)),
        ("docs/web.md", "the rows, {} a page", (selection_preview.PAGE_ROWS,)),
        ("docs/web.md", "of the first {:,} rows", (selection_preview.PREVIEWED_ROWS,)),
        ("docs/web.md", "*Try {} rows* runs", (dry_run.ROWS,)),
        ("docs/web.md", "It ends after {:g} seconds", (dry_run.SECONDS,)),
        (
            "docs/web.md",
            "{:,} errors are grouped, and {} messages shown",
            (results_log.MOST_GROUPED, job_page.ERROR_GROUPS),
        ),
        ("docs/web.md", "The last {} lines are shown", (job_page.EVENTS_SHOWN,)),
        ("docs/web.md", "keep the page waiting ({:g} ms)", (banners.COUNT_MS,)),
        ("docs/api.md", "the last {} lines of its log", (job_page.EVENTS_SHOWN,)),
        ("docs/api.md", "with more than {} `next`", (jobs_list.JOBS_A_PAGE,)),
        ("docs/datasets.md", "more than {:,} files are not read", (manifest.MAX_LISTED,)),
        ("docs/datasets.md", "no more than {:,} characters", (manifest.MAX_PATH,)),
        ("docs/fleet.md", "After {:g} of `session_seconds` without a word", (worker.LOST_AFTER,)),
        ("docs/fleet.md", "| results | {} days |", (topics.RESULT_DAYS,)),
        ("docs/fleet.md", "from {:g} seconds to", (parking.WAITS[0],)),
    ],
)
def test_a_number_in_a_sentence_is_the_one_in_the_code(page: str, sentence: str, numbers: tuple[float, ...]) -> None:
    assert sentence.format(*numbers) in squeezed(text(page))


def test_every_topic_and_number_of_a_fleet_is_described() -> None:
    kafka = settings.KafkaSettings(bootstrap=("kafka.example.org:9092",))
    names = {topic.name.partition(".")[2] for topic in vars(topics.topics_of(kafka)).values()}
    assert names <= first_cells("docs/fleet.md")
    page = text("docs/fleet.md")
    sources = [path.read_text("utf-8") for path in (PROJECT / "datasette_ingest/ingest/remote").glob("*.py")]
    counts = set(re.findall(r'metrics\.add\("(\w+)"', " ".join(sources)))
    assert counts and all(f"_{name}_total`" in page for name in counts)
    assert all(f"_{name}`" in page for name in worker.Worker(kafka, CrawlSettings()).metrics.gauges)


def test_every_option_of_a_job_is_described() -> None:
    assert set(JobOptions.model_fields) <= first_cells("docs/configuration.md")


def test_every_word_beside_a_hit_is_described() -> None:
    words = {MISSING_EOF, DOI_MISMATCH, collect.TOO_MANY, collect.TOO_LARGE, collect.TIMEOUT}
    assert all(f"`{word}`" in text("docs/tables.md") + text("docs/datasets.md") for word in words)


def test_every_address_is_described() -> None:
    described = set(re.findall(r"`(/-/[^`]+)`", text("docs/api.md")))
    for route in ROUTES:
        path = re.sub(r"/(pause|resume|cancel|retry)$", "/{verb}", route.path)
        assert {path, path + ".json"} & described, path


def test_every_name_for_authors_is_described() -> None:
    described = set(re.findall(r"\b(\w+)\b", text("docs/enrichments.md")))
    offered = {name for name in vars(Enrichment) if not name.startswith("_")} - {"is_row_by_row"}
    assert offered | set(datasette_ingest.__all__) | CONTEXT_NAMES <= described
    assert {field.name for field in dataclasses.fields(BatchOutcome)} <= described


def test_links_within_the_project_resolve() -> None:
    others = {path.relative_to(PROJECT).as_posix(): path for path in (PROJECT / "examples").glob("*/README.md")}
    for page, path in {**PAGES, **others}.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text("utf-8")):
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


# ---- pages for those who change the code ---------------------------------------------------------------------------


def named_functions() -> list[tuple[str, str]]:
    """(file, function or class) of each `path.py: name` on the page of the architecture."""
    return re.findall(r"`([\w/]+\.py): ([\w.]+)`", text("docs/architecture.md"))


@pytest.mark.parametrize(("file", "name"), named_functions())
def test_a_function_of_a_flow_exists(file: str, name: str) -> None:
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    found: Any = importlib.import_module(f"datasette_ingest.{module}")
    for part in name.split("."):
        found = getattr(found, part)


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_a_file_or_folder_that_is_named_exists(page: str) -> None:
    named = re.findall(
        r"`([\w.-]+/[\w./-]*|[\w-]+\.(?:py|md|toml))`", without_blocks(page).partition("## Every module")[0]
    )
    package = PROJECT / "datasette_ingest"
    assert [name for name in named if not (PROJECT / name).exists() and not (package / name).exists()] == []


def contributors_commands() -> list[list[str]]:
    """The words of each command for contributors that runs tests, a benchmark or a check."""
    lines = "".join(blocks("CONTRIBUTING.md", "bash")).splitlines()
    return [shlex.split(line) for line in lines if line.startswith(".venv/bin/")]


@pytest.mark.parametrize("words", contributors_commands(), ids=" ".join)
def test_a_command_for_contributors_is_one_that_the_tool_takes(words: list[str]) -> None:
    program, *given = words
    for word in given:
        assert not word.endswith(".py") or (PROJECT / word).is_file()
    if program.endswith("/python"):
        assert all(f'"{word}"' in (PROJECT / given[0]).read_text("utf-8") for word in given if word.startswith("--"))
    elif not program.endswith("/pytest"):
        assert " ".join(words) in (PROJECT / ".ci" / "run").read_text("utf-8").splitlines()


def test_ci_makes_no_check_that_contributors_are_not_told() -> None:
    checks = re.findall(r"^\.venv/bin/.*$", (PROJECT / ".ci" / "run").read_text("utf-8"), re.MULTILINE)
    assert {tuple(line.split()) for line in checks} <= {tuple(words) for words in contributors_commands()}
    (line,) = re.findall(r'OTHER_LINE="(.*)"', (PROJECT / ".ci" / "run").read_text("utf-8"))
    assert f"'{line}'" in text("CONTRIBUTING.md")


def test_the_rule_and_the_language_for_contributors_are_read(tmp_path: pathlib.Path) -> None:
    shown, language = blocks("CONTRIBUTING.md", "toml")
    (given,) = tomllib.loads(shown)["rule"]
    rule = linkrule.LinkRule(**{**given, "place": linkrule.Place(given["place"])})
    page = read_page(rule.example.encode(), rule.example_page, "", target=rule.target, rules=(rule,))
    assert (rule.name, rule.example_found) in [(found.rule, found.url) for found in page.candidates]
    (tmp_path / "eo.toml").write_text(language, "utf-8")
    assert read_files(tmp_path)["eo"]["links.download"] == ("elŝuti",)


# ---- examples that load and run ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "content"),
    [(page, block) for page in PAGES for block in blocks(page, "yaml")],
    ids=lambda value: value[:24],
)
def test_a_configuration_shown_can_be_used(page: str, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in re.findall(r"\$env: (\w+)", content):
        monkeypatch.setenv(name, "a-secret")
    found = yaml.safe_load(content)
    assert isinstance(found, dict)
    for holder in _levels(found):
        settings.load(holder.get("plugins", {}).get("datasette-ingest"))


EXAMPLE_FILES = {"metadata.yml": "-c" if compat.job_events() else "-m"} | (
    {"datasette.yaml": "-c"} if compat.job_events() else {}
)
"""The example files that this Datasette line reads, and the option by which it is given one."""


@pytest.mark.parametrize("name", EXAMPLE_FILES)
async def test_an_example_file_lets_in_whom_it_says(name: str, papers: pathlib.Path) -> None:
    config = yaml.safe_load((PROJECT / name).read_text("utf-8"))
    grants = {"root": 200, "librarian": 200 if "databases" in config else 403, "reader": 403}
    async with serving(papers, **{key: value for key, value in config.items() if key != "plugins"}) as datasette:
        for who, code in grants.items():
            cookie = {"ds_actor": datasette.sign({"a": {"id": who}}, "actor")}
            assert (await datasette.client.get("/-/ingest/papers/papers", cookies=cookie)).status_code == code, who
    assert settings.load(config["plugins"]["datasette-ingest"]).contact == "mailto:librarian@example.org"


@pytest.mark.parametrize(("name", "option"), EXAMPLE_FILES.items())
def test_a_server_starts_with_an_example_file(name: str, option: str, papers: pathlib.Path) -> None:
    words = [str(papers), option, str(PROJECT / name), "--get", "/papers.json"]
    served = CliRunner().invoke(datasette_cli, words, catch_exceptions=False)
    assert served.exit_code == 0, served.output
    settings_shown = yaml.safe_load((PROJECT / name).read_text("utf-8"))["plugins"]["datasette-ingest"]
    assert set(settings_shown) <= first_cells("docs/configuration.md")


def _levels(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield config
    for database in config.get("databases", {}).values():
        yield database
        yield from database.get("tables", {}).values()


def commands_in_sentences() -> list[tuple[str, str]]:
    """(page, command line) of each `datasette ingest …` that stands in a sentence and leaves nothing open."""
    found = [(page, line) for page in PAGES for line in re.findall(r"`(datasette ingest [^`]+)`", without_blocks(page))]
    return [(page, line) for page, line in found if "…" not in line]


@pytest.mark.parametrize(("page", "line"), commands_in_sentences())
def test_a_command_in_a_sentence_is_one_that_the_program_takes(
    page: str, line: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("papers.db", "journals.db", "backup.db"):
        sqlite3.connect(name).close()
        pathlib.Path(name).touch()
    command: click.Command = ingest
    words = shlex.split(line)[2:]
    while words and isinstance(command, click.Group) and not words[0].startswith("-"):
        command = command.commands[words.pop(0)]
    if len(words) > 0 and words != ["--help"]:
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
    with plugin_of(enrichment_example("whisper")):
        await module["test_it_whispers"]()


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
    columns = set(engine.TABLES["_enrichment_jobs"].names) - {"request_key", "request_digest", "private_table"}
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


def shown_requests() -> list[list[str]]:
    """The words of each `curl` that the page shows."""
    whole = "\n".join(blocks("docs/api.md", "bash")).replace("\\\n", " ")
    return [shlex.split(line)[1:] for line in whole.splitlines() if line.startswith("curl ")]


async def test_each_request_shown_is_answered_as_it_says(papers: pathlib.Path) -> None:
    statuses = []
    async with serving(papers) as datasette:
        for address, *options in shown_requests():
            given = list(zip(options[::2], options[1::2], strict=True))
            headers = dict(value.split(": ", 1) for option, value in given if option == "-H")
            headers.pop("Authorization", None)  # whoever asks is root here
            bodies = [value for option, value in given if option == "-d"]
            path = address.removeprefix("http://127.0.0.1:8001")
            statuses.append((path, (await send(datasette, path, bodies[0] if bodies else None, headers)).status_code))
    assert statuses == [
        ("/-/ingest-api.json", 200),
        ("/-/ingest-jobs/papers", 201),
        ("/-/ingest-jobs/papers", 201),
        ("/-/ingest-jobs/papers/1/pause", 200),
    ]


async def test_the_listener_shown_hears_of_a_job(papers: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    if not compat.job_events():
        pytest.skip("this Datasette line has no events")
    (source,) = blocks("docs/api.md", "python")
    module: dict[str, Any] = {"__name__": "listener"}
    exec(compile(source, "api.md", "exec"), module)
    plugin = type("Listener", (), {"track_event": staticmethod(module["track_event"])})()
    with plugin_of(enrichment_example("whisper")):
        pm.register(plugin)
        try:
            async with serving(papers) as datasette:
                config = {"column": "url"}
                await control.start(
                    datasette, "papers", StartRequest("papers", enrichment="whisper", config=config, actor=ROOT)
                )
                await testing.run_until_idle(datasette)
        finally:
            pm.unregister(plugin)
    assert "job 1 over papers is done: {'success': 3}" in caplog.text


def test_every_event_is_described() -> None:
    steps = {f"ingest-job-{step}" for step in ("started", "finished", "cancelled", "paused")}
    assert steps <= first_cells("docs/api.md")
    assert {kind.name for kind in compat.job_events().values()} in (steps, set())


class SignedIn:
    """A plugin for which everybody is root, as a token would say."""

    __name__ = "signed in"

    @hookimpl
    def actor_from_request(self) -> dict[str, str]:
        return ROOT


async def post(datasette: Any, path: str, body: Any, *, key: str | None = None) -> Any:
    """As a program does: JSON, no cookie."""
    headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
    return await send(datasette, path, json.dumps(body), headers)


async def send(datasette: Any, path: str, body: str | None, headers: dict[str, str]) -> Any:
    """A GET, or where there is a body a POST, by root."""
    plugin = SignedIn()
    pm.register(plugin)
    try:
        if body is None:
            return await datasette.client.get(path, headers=headers)
        return await datasette.client.post(path, content=body, headers=headers)
    finally:
        pm.unregister(plugin)
