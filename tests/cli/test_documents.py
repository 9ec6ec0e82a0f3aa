"""`documents`, as a person and a program read it."""

from __future__ import annotations

import pathlib

import pytest

from datasette_ingest.ingest.documents import pdf, registry

from ..conftest import rows
from .conftest import QUICK, Cli, read_json


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "files"


@pytest.fixture
def kept(cli: Cli, papers: pathlib.Path, root: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The database after a run that kept two files and read none."""
    ran = cli("run", papers, "papers", *QUICK, "-s", "store", root)
    assert ran.exit_code == 0, ran.output
    monkeypatch.setattr(registry, "PROCESSORS", (pdf.processor,))
    return papers


def test_kept_files_are_read_and_can_be_searched(cli: Cli, kept: pathlib.Path, root: pathlib.Path) -> None:
    result = cli("documents", kept, "-s", "store", root)
    assert result.exit_code == 0, result.output
    assert result.stdout == "2 hits looked at, 2 files read.\n  pdf_meta success: 2\n"
    found = "select count(*) from ingest_fulltext_fts where ingest_fulltext_fts match 'herons'"
    assert rows(kept, found) == [(1,)]
    assert rows(kept, "select count(*) from ingest_thumbnail") == [(2,)]
    assert len(list(root.glob("thumbnail/*/*/*.webp"))) == 2
    again = cli("documents", kept, "-s", "store", root)
    assert (again.exit_code, again.stdout) == (0, "2 hits looked at, 0 files read.\n")


def test_bodies_that_are_not_in_the_store_are_told(cli: Cli, kept: pathlib.Path, root: pathlib.Path) -> None:
    sorted(root.rglob("*.pdf"))[0].unlink()
    found = cli("documents", kept, "-s", "store", root, "--json")
    assert found.exit_code == 1
    assert read_json(found) == {
        "ok": False, "hits": 2, "read": 1, "statuses": {"pdf_meta success": 1}, "missing": 1, "damaged": 0, "errors": 0,
        "messages": [],
    }  # fmt: skip
    said = cli("documents", kept, "-s", "store", root)
    assert said.stdout == (
        f"2 hits looked at, 0 files read.\n1 body is missing from the store {root}: `store check` lists them. "
        "If that is the right store, fetch their rows again with --set force_recrawl=true.\n"
    )


def test_it_needs_a_store(cli: Cli, papers: pathlib.Path) -> None:
    result = cli("documents", papers)
    assert result.exit_code == 2
    assert "Name the store with -s store PLACE" in result.stderr


def test_results_under_a_prefix_are_read_into_tables_under_it(
    cli: Cli, papers: pathlib.Path, root: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("run", papers, "papers", *QUICK, "-s", "store", root, "--set", "table_prefix=my_")
    monkeypatch.setattr(registry, "PROCESSORS", (pdf.processor,))
    result = cli("documents", papers, "-s", "store", root, "--table-prefix", "my_")
    assert result.exit_code == 0, result.output
    assert rows(papers, "select count(*) from my_pdf_meta") == [(2,)]
