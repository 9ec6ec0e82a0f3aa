"""What a person gets wrong: one line that says what to do, the right exit code, and nothing half done."""

from __future__ import annotations

import contextlib
import functools
import pathlib
import sqlite3
from collections.abc import Iterator

import pytest
from click.testing import Result
from datasette import hookimpl
from datasette.plugins import pm

from datasette_ingest import compat
from datasette_ingest.cli import databases
from datasette_ingest.cli.paths import shell_word

from ..conftest import rows
from .conftest import Cli, Stepper, tables

REFUSED, USAGE = 1, 2


def said(result: Result) -> str:
    """The one line after `Error: `; the program printed nothing else but how to get help."""
    assert result.stdout == ""
    *usage, line = result.stderr.splitlines()
    assert all(text.startswith(("Usage: ", "Try ")) or not text for text in usage), result.stderr
    assert line.startswith("Error: "), result.stderr
    return line.removeprefix("Error: ")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nosuch"], REFUSED, "There is no table 'nosuch' in {db}. Its tables: notes, papers, recent"),
        (
            ["papers", "--url-column", "link"],
            REFUSED,
            "url_column: 'papers' has no column 'link'; its columns are id, url, year",
        ),
        (
            ["notes"],
            REFUSED,
            "No column of 'notes' seems to hold links. Name one with --url-column; the columns are id, note",
        ),
        (
            ["recent", "--url-column", "url"],
            REFUSED,
            "recent is a view, so results cannot be written to its rows. Enrich the table that it reads from",
        ),
        (["papers", "--enrichment", "nosuch"], REFUSED, "No enrichment 'nosuch' is installed. Installed: ingest"),
        (
            ["papers", "--set", "ingest_type=audio"],
            REFUSED,
            "ingest_type: unknown type 'audio'; types are dataset, html, pdf, xml",
        ),
        (["papers", "--set", "colour=red"], REFUSED, "colour: there is no such setting"),
        (
            ["papers", "--filter", "nosuch=1"],
            REFUSED,
            "The filter nosuch=1 names no column of 'papers'; its columns are id, url, year",
        ),
        (["papers", "--filter", "_search=tides"], REFUSED, "_search: the table 'papers' has no full-text search"),
        (["papers", "--type", "audio"], USAGE, "Invalid value for '--type': 'audio' is not one of"),
        (["papers", "--batch-size", "0"], USAGE, "Invalid value for '--batch-size': 0 is not in the range x>=1."),
        (["papers", "--max-errors", "-1"], USAGE, "Invalid value for '--max-errors': -1 is not in the range x>=0."),
        (["papers", "--set", "year"], USAGE, "--set year: write it as key=value"),
        (["papers", "-s", "concurrency", "0"], USAGE, "concurrency: expected a number of at least 1, not 0"),
        (["papers", "-s", "concurrency", "many"], USAGE, "concurrency: expected a whole number, not 'many'"),
        (["papers", "-s", "colour", "red"], USAGE, "datasette-ingest has no setting 'colour'. Settings: allow, "),
        (["papers", "--source", "gopher"], USAGE, "sources: unknown source 'gopher'; known are live, wayback, spn2"),
        (["papers", "--allow-network", "home"], USAGE, "allow_networks: 'home' is not a network; write "),
    ],
)
def test_run_says_what_is_wrong_and_touches_nothing(
    cli: Cli, papers: pathlib.Path, arguments: list[str], code: int, message: str
) -> None:
    before = papers.read_bytes()
    result = cli("run", papers, *arguments)
    assert said(result).startswith(message.format(db=papers))
    assert result.exit_code == code
    assert papers.read_bytes() == before


def test_an_operator_that_datasette_does_not_know_is_named_with_those_that_it_knows(
    cli: Cli, papers: pathlib.Path
) -> None:
    result = cli("run", papers, "papers", "--filter", "url__nosuchop=1")
    assert result.exit_code == REFUSED
    message = said(result)
    assert "The filter 'url__nosuchop' has an unknown operator __nosuchop" in message
    assert "contains" in message
    assert "_enrichment_jobs" not in tables(papers)


def test_a_folder_instead_of_a_database_is_wrong_usage(cli: Cli, tmp_path: pathlib.Path) -> None:
    result = cli("run", tmp_path, "papers")
    assert result.exit_code == USAGE
    assert said(result) == f"Invalid value for 'DB': File '{tmp_path}' is a directory."


def test_a_database_that_does_not_exist_is_wrong_usage_and_is_not_made(cli: Cli, tmp_path: pathlib.Path) -> None:
    missing = tmp_path / "missing.db"
    result = cli("run", missing, "papers")
    assert result.exit_code == USAGE
    assert said(result) == f"Invalid value for 'DB': File '{missing}' does not exist."
    assert not missing.exists()


@pytest.mark.parametrize("verb", [("run", "papers"), ("jobs",), ("show", "1"), ("work",), ("cache", "prune")])
def test_a_file_that_is_no_database_is_refused_by_every_command(
    cli: Cli, tmp_path: pathlib.Path, verb: tuple[str, ...]
) -> None:
    text = tmp_path / "letter.db"
    text.write_text("Dear reader, this is not a database.", encoding="utf-8")
    words = ("cache", "prune", text) if verb[0] == "cache" else (verb[0], text, *verb[1:])
    result = cli(*words)
    assert result.exit_code == REFUSED
    assert said(result) == f"{text} is not a SQLite database. Give the path of one, such as papers.db"
    assert text.read_text(encoding="utf-8") == "Dear reader, this is not a database."


def test_a_damaged_database_is_refused(cli: Cli, papers: pathlib.Path) -> None:
    damaged = bytearray(papers.read_bytes())
    damaged[100:140] = b"\xff" * 40
    papers.write_bytes(damaged)
    result = cli("run", papers, "papers")
    assert result.exit_code == REFUSED
    assert said(result).startswith("This is not a usable SQLite database (")
    assert papers.read_bytes() == damaged


def test_a_file_that_may_not_be_written_is_refused(cli: Cli, papers: pathlib.Path) -> None:
    """Byte 18 of the header is the version that a writer must know; above 2, SQLite only reads (file format, 1.3.3)."""
    content = bytearray(papers.read_bytes())
    content[18] = 3
    papers.write_bytes(content)
    result = cli("run", papers, "papers")
    assert result.exit_code == REFUSED
    assert said(result) == (
        "The database papers may not be written: change the permissions of its file and folder, or work on a copy"
    )
    assert papers.read_bytes() == content


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Locks are waited for a moment instead of most of a minute."""

    class Plugin:
        __name__ = "impatient"

        @hookimpl
        def prepare_connection(self, conn: sqlite3.Connection) -> None:
            conn.execute("pragma busy_timeout = 20")

    plugin = Plugin()
    pm.register(plugin, name="impatient")
    monkeypatch.setattr(databases, "LOCK_SECONDS", 0.02)
    monkeypatch.setattr(compat, "write", functools.partial(compat.write, pauses=(0.01,)))
    yield
    pm.unregister(plugin)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("lock", ["begin immediate", "begin exclusive"])
def test_a_locked_database_is_refused_and_stays_as_it_was(cli: Cli, papers: pathlib.Path, lock: str) -> None:
    with contextlib.closing(sqlite3.connect(papers, isolation_level=None)) as holder:
        holder.execute(lock)
        result = cli("run", papers, "papers", "--url-column", "url")
        holder.execute("rollback")
    assert result.exit_code == REFUSED
    message = said(result)
    assert "is locked by another program" in message
    assert message.endswith("ry again when it is done")
    assert "_enrichment_jobs" not in tables(papers)
    assert rows(papers, "select count(*) from papers") == [(4,)]


@pytest.mark.parametrize("verb", ["show", "pause", "resume", "cancel", "retry"])
def test_a_job_that_does_not_exist_is_named_and_no_table_is_made(cli: Cli, papers: pathlib.Path, verb: str) -> None:
    before = papers.read_bytes()
    result = cli(verb, papers, 7)
    assert result.exit_code == REFUSED
    assert (
        said(result) == f"There is no job 7 in papers. List the jobs with: datasette ingest jobs {shell_word(papers)}"
    )
    assert papers.read_bytes() == before


@pytest.mark.parametrize("number", ["0", "-1", "three"])
def test_a_job_number_that_is_none_is_wrong_usage(cli: Cli, papers: pathlib.Path, number: str) -> None:
    result = cli("show", "--", papers, number)
    assert result.exit_code == USAGE
    assert said(result).startswith("Invalid value for 'ID': ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("title: no plugins here", "has no plugins: datasette-ingest: block"),
        ("plugins: {datasette-ingest: [1, 2]}", "plugins: datasette-ingest: must hold settings"),
        ("plugins: [unclosed", "is neither YAML nor JSON"),
        ("title: caf\xe9", "is neither YAML nor JSON"),
    ],
)
def test_a_configuration_file_without_our_settings_is_wrong_usage(
    cli: Cli, papers: pathlib.Path, tmp_path: pathlib.Path, content: str, message: str
) -> None:
    config = tmp_path / "metadata.yml"
    config.write_text(content, encoding="latin-1")
    result = cli("run", papers, "papers", "-c", config)
    assert result.exit_code == USAGE
    assert message in result.stderr
    assert str(config) in result.stderr


def test_a_secret_written_out_is_refused_without_repeating_it(cli: Cli, papers: pathlib.Path) -> None:
    result = cli("run", papers, "papers", "-s", "spn2_secret_key", "hunter2")
    assert result.exit_code == USAGE
    assert said(result).startswith("spn2_secret_key: write it as ")
    assert "hunter2" not in result.output


def test_text_that_is_not_utf_8_is_wrong_usage_and_paths_may_be(cli: Cli, papers: pathlib.Path) -> None:
    bad = "caf\udce9"
    for arguments in (
        ["run", papers, bad],
        ["run", papers, "papers", "--url-column", bad],
        ["run", papers, "papers", "--filter", f"url={bad}"],
        ["run", papers, "papers", "--set", f"url_column={bad}"],
        ["run", papers, "papers", "-s", "contact", bad],
        ["jobs", papers, "--table", bad],
        ["url", f"http://host.example/{bad}"],
    ):
        result = cli(*arguments)
        assert result.exit_code == USAGE
        assert said(result).endswith("is not UTF-8.")


def test_text_is_utf_8_whatever_the_locale_says(cli: Cli, papers: pathlib.Path) -> None:
    """In the C locale Python hands over the bytes of `é` as two surrogates."""
    with contextlib.closing(sqlite3.connect(papers)) as conn:
        conn.execute('create table "é" (id integer primary key)')
    result = cli("run", papers, "\udcc3\udca9", "--url-column", "nosuch")
    assert said(result) == "url_column: 'é' has no column 'nosuch'; its columns are id"


@pytest.mark.parametrize("odd", ["a\nb", "\ufeffid", " blanks ", "tab\t", "\u202eright to left", "-dash", "quote'\"`]"])
def test_names_of_any_kind_are_chosen_on_the_command_line_and_shown_readably(
    cli: Cli, papers: pathlib.Path, stepper: Stepper, odd: str
) -> None:
    quoted = '"' + odd.replace('"', '""') + '"'
    with contextlib.closing(sqlite3.connect(papers)) as conn:
        conn.execute(f"create table {quoted} (id integer primary key, {quoted} text)")
        conn.execute(f"insert into {quoted} values (1, 'gopher://x')")
        conn.commit()
    listed = said(cli("run", papers, "nosuch"))
    assert listed.isprintable() and (odd if odd.isprintable() and odd == odd.strip() and odd else ascii(odd)) in listed
    ran = cli("run", "--enrichment", "step", "--", papers, odd)
    assert ran.exit_code == 0, ran.output
    assert rows(papers, f"select mark from {quoted}") == [("seen",)]
    for shown in (cli("jobs", papers), cli("show", papers, 1)):
        assert shown.exit_code == 0
        assert all(line.isprintable() for line in shown.stdout.splitlines())
    chosen = cli("run", f"--url-column={odd}", "--", papers, odd)
    assert chosen.exit_code == 0, chosen.output
    assert rows(papers, f"select ingest_status from {quoted}") == [("bad-scheme",)]


def test_a_message_shows_no_password_that_was_typed(cli: Cli, papers: pathlib.Path) -> None:
    for arguments in (
        ["jobs", papers, "http://me:hunter2@host.example/"],
        ["http://me:hunter2@host.example/"],
        ["run", papers, "papers", "--set", "http://me:hunter2@host.example/"],
        ["run", papers, "http://me:hunter2@host.example/"],
        ["run", papers, "papers", "-s", "proxy", "http://me:hunter2@host.example/"],
        ["run", papers, "papers", "--allow-network", "http://me:hunter2@host.example/"],
        ["url", "http://me:hunter2@host.example:port/", "--explain"],
    ):
        result = cli(*arguments)
        assert result.exit_code in (REFUSED, USAGE)
        assert "hunter2" not in result.stderr
        assert "hunter2" not in result.stdout


def test_a_table_without_a_name_is_refused_with_a_sentence(cli: Cli, papers: pathlib.Path) -> None:
    with contextlib.closing(sqlite3.connect(papers)) as conn:
        conn.execute('create table "" (url text)')
    result = cli("run", papers, "", "--url-column", "url")
    assert result.exit_code == REFUSED
    assert (
        said(result) == "A table without a name has no page in Datasette, nor has a job over it. Rename the table first"
    )
