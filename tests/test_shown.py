"""What the documentation shows is so: its commands run in the order in which they stand, and print what is printed there.

Each page is a story in a folder of its own, on the web of `shown_web`. A block of output is what the block of commands
before it printed, or a part of that. The help texts in cli.md and the demo's output in README.md are tested in test_docs.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import pathlib
import re
import shlex
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest
import sqlite_utils.cli
from click.testing import CliRunner
from datasette.cli import cli as datasette_cli

from datasette_ingest import compat

from .shown_pages import FIRST_COMMANDS, PAGES, PROJECT, fenced
from .shown_web import shown_web

pytestmark = pytest.mark.slow

PAPERS = (
    ("Herons of the lower river", "https://example.org/files/herons.pdf", 2019),
    ("Tides in small harbours", "https://example.org/articles/tides", 2020),
    ("Prices of salt, 1600–1650", "https://example.org/articles/salt", 2021),
    ("Lost and found", "https://example.org/articles/lost", 2022),
    ("Lichens on slate roofs", "https://repository.example.edu/item/7", 2022),
    ("The winds of a small island", "https://gone.example/winds.pdf", 2023),
    ("Notes on nothing", "", 2024),
)
DOIS = ("10.5555/mosses", "https://doi.org/10.5555/tides", "doi:10.5555/salt", "10.5555/nowhere")

WORKS = (
    ("10.5555/tides", 2020, "https://example.org/files/tides.pdf"),
    ("10.5555/mosses", 2021, "https://journal.example.net/keys/mosses"),
    ("10.5555/salt", 2021, "https://example.org/articles/salt"),
    ("10.5555/lost", 2022, "https://gone.example/lost.pdf"),
    ("10.5555/winds", 1998, "https://gone.example/winds.pdf"),
    ("10.5555/closed", 2023, None),
)
"""DOI, year, and where the work can be read, as an index of open access says."""

ELSEWHERE = {*FIRST_COMMANDS, "pip install ."}
"""Commands that install: CI does what the first two do."""
SERVICES = ("datasette ingest kafka ", "run_on=kafka", "grobid_url", "systemctl ")
"""What commands have that ask a service: tests beside the code run those with one."""
STORIES = [page for page in PAGES if page not in ("docs/enrichments.md", "CONTRIBUTING.md")]
"""What the first makes is tested as a package, with the examples; the commands of the second in test_docs."""


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """Where a reader stands: a CSV file of papers, one of DOIs, a dump of works, and a configuration file."""
    monkeypatch.chdir(tmp_path)
    write_csv("papers.csv", ("id", "title", "url", "year"), PAPERS)
    write_csv("dois.csv", ("id", "doi"), [(doi,) for doi in DOIS])
    write_dump("unpaywall_snapshot.jsonl.gz")
    (tmp_path / "metadata.yml").write_bytes((PROJECT / "metadata.yml").read_bytes())
    with shown_web(monkeypatch):
        yield tmp_path


def write_csv(name: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A file of these rows, numbered from 1."""
    with open(name, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *((number, *row) for number, row in enumerate(rows, 1))])


def write_dump(name: str) -> None:
    """The works as Unpaywall's snapshot has them, and a line that is cut."""
    with gzip.open(name, "wt", encoding="utf-8") as file:
        for doi, year, url in WORKS:
            kind = "url_for_pdf" if url and url.endswith(".pdf") else "url_for_landing_page"
            place = {"url": url, kind: url, "is_best": True, "version": "publishedVersion", "host_type": "publisher"}
            record = {"doi": doi, "year": year, "oa_status": "gold", "oa_locations": [place] if url else []}
            file.write(json.dumps(record) + "\n")
        file.write('{"doi": "10.5555/cut", "oa_loc\n')


def make_databases() -> None:
    """papers.db with a table of papers and one of datasets, and journals.db."""
    with contextlib.closing(sqlite_utils.Database("papers.db")) as db:
        rows = [dict(zip(("id", "title", "url", "year"), (id, *row), strict=True)) for id, row in enumerate(PAPERS, 1)]
        db["papers"].insert_all([{**row, "journal": "Notes", "wanted": None} for row in rows], pk="id")
        db["datasets"].insert({"id": 1, "doi": "doi:10.5072/FK2/TIDES"}, pk="id")
    sqlite3.connect("journals.db").close()
    pathlib.Path("journals.db").touch()


@pytest.mark.parametrize("page", STORIES)
def test_the_commands_of_a_page_run_and_print_what_it_shows(page: str, folder: pathlib.Path) -> None:
    blocks = fenced(page)
    script = "\n".join(content for language, content in blocks if language == "bash")
    if "insert papers.db papers " not in script:
        make_databases()
    printed = ""
    for language, content in blocks:
        if language == "bash":
            printed = "".join(run(command) for command in commands_of(content))
        elif language == "yaml":
            pathlib.Path("metadata.yml").write_text(content, "utf-8")
        elif language == "" and page != "README.md" and not content.startswith("Usage: "):
            assert timeless(content) in timeless(printed), f"{page} shows another output than\n{printed}"


def commands_of(script: str) -> list[str]:
    """The command lines of a shell block; one may go over several lines, by a backslash or an open quote."""
    lines, found = script.replace("\\\n", " ").splitlines(), []
    while lines:
        line = lines.pop(0)
        while line.count('"') % 2 or line.count("'") % 2:
            line += "\n" + lines.pop(0)
        if line.strip():
            found.append(line.strip())
    return found


def run(command: str) -> str:
    """What a shown command prints; it must end well, or with the refusal or the miss that the page is about."""
    if any(mark in command for mark in SERVICES) or command.startswith("pip install "):
        return ""
    if command in ELSEWHERE or command.startswith("curl "):  # api.md's requests are made in test_docs
        return ""
    program, *words = shlex.split(command.partition(" | ")[0])
    if program == "sqlite3":
        database, sql = words
        with contextlib.closing(sqlite3.connect(database)) as conn:
            conn.execute(sql)
        return ""
    if program == "sqlite-utils":
        return invoked(sqlite_utils.cli.cli, words, {0}).stdout
    assert program == "datasette", f"nobody knows how to run {command!r}"
    if words[0] != "ingest":
        return invoked(datasette_cli, served_once(words), {0}).stdout
    if words[1] == "demo":
        return ""  # its output is the README's
    done = invoked(datasette_cli, [word for word in words if word != "--forever"], {0, 1})
    if done.exit_code == 1:
        assert words[1] == "url" or "has no rows in error and no misses that are due" in done.stderr, (
            command + "\n" + done.output
        )
    return done.stdout + done.stderr


def served_once(words: list[str]) -> list[str]:
    """`datasette papers.db --root --open` as a server that answers one request for its front page."""
    given = [word for word in words if word not in ("--open", "--root")]
    if compat.job_events():  # 1.0 is given its configuration with -c
        given = ["-c" if word == "-m" else word for word in given]
    return [*given, "--get", "/"]


def invoked(program: Any, words: list[str], codes: set[int]) -> Any:
    done = CliRunner().invoke(program, words, catch_exceptions=False)
    assert done.exit_code in codes, f"{words}\n{done.output}"
    return done


def timeless(text: str) -> str:
    """Without what differs from run to run: times of day, cursors, and the ends of lines."""
    text = re.sub(r"\bc\d+-\d+-[0-9a-f]{8}-[0-9a-f]{8}", "CURSOR", text)
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?Z)?", "2026-11-30 13:36", text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
