"""`datasette ingest url`: one request, for a person or for a program."""

from __future__ import annotations

import json

import pytest

from datasette_ingest.cli.url import explanation
from datasette_ingest.ingest.model import IngestRequest, IngestResult, Terminal

from .conftest import QUICK, Cli


def test_a_hit_is_printed_as_json_and_exits_0(cli: Cli, site: str) -> None:
    result = cli("url", f"{site}/articles/tides", *QUICK)
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["hit"], found["status"]) == (True, "success")
    assert found["hops"] == [f"{site}/articles/tides", f"{site}/files/tides.pdf"]
    assert found["terminal"]["terminal_sha1hex"] == found["file_meta"]["sha1hex"]


def test_a_miss_is_printed_as_json_and_exits_1(cli: Cli, site: str) -> None:
    result = cli("url", f"{site}/articles/lost", *QUICK)
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert (found["hit"], found["status"]) == (False, "terminal-bad-status")
    assert found["terminal"]["terminal_status_code"] == 404


def test_explain_shows_the_way_and_each_link_with_its_outcome(cli: Cli, site: str) -> None:
    result = cli("url", f"{site}/articles/salt", "--explain", *QUICK)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "no hit: blocked-wall"
    assert f"  {site}/members/salt.pdf" in lines
    assert lines[-2].split() == ["rank", "rule", "outcome", "code", "URL"]
    assert lines[-1].split() == ["1", "citation_pdf_url", "blocked-wall", "200", f"{site}/members/salt.pdf"]


def test_explain_says_when_no_link_was_considered(cli: Cli, site: str) -> None:
    result = cli("url", f"{site}/files/herons.pdf", "--explain", *QUICK)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "hit: success"
    assert result.stdout.endswith("No links were considered.\n")


def test_a_doi_is_looked_up_at_the_resolver(cli: Cli, site: str) -> None:
    result = cli("url", "https://doi.org/10.5555/Demo.Mosses", "-s", "doi_resolver", f"{site}/doi/", *QUICK)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["hops"][0] == f"{site}/doi/10.5555/demo.mosses"


@pytest.mark.parametrize(
    ("cell", "status"),
    [("", "invalid-url"), ("no link at all", "invalid-url"), ("ftp://example.org/a.pdf", "bad-scheme")],
)
def test_what_is_no_web_address_is_a_miss_and_no_crash(cli: Cli, cell: str, status: str) -> None:
    result = cli("url", cell)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["status"] == status


def test_a_type_that_does_not_exist_is_wrong_usage(cli: Cli) -> None:
    result = cli("url", "https://example.org/", "--type", "audio")
    assert result.exit_code == 2
    assert "'audio' is not one of" in result.stderr


def test_an_explanation_says_which_source_was_asked_and_where_the_capture_is() -> None:
    url, page = "http://h.example/a.pdf", "https://web.archive.org/web/20190304050607/http://h.example/a.pdf"
    result = IngestResult(
        IngestRequest("pdf", url),
        True,
        "success",
        hops=(url, url),
        hop_sources=("live", "wayback"),
        terminal=Terminal(url, "20190304050607", 200, archive_url=page),
    )
    lines = explanation(result).splitlines()
    assert lines[1:3] == [f"at {url} (200)", f"captured on 4 March 2019: {page}"]
    assert lines[-4:-2] == [f"  {url} (live)", f"  {url} (wayback)"]
    missing = IngestResult(IngestRequest("pdf", url), False, "no-capture", "none", terminal=Terminal(url))
    assert explanation(missing).splitlines()[2] == f"at {url}"
