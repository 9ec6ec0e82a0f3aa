"""`store check`, as a person and a program read it."""

from __future__ import annotations

import json
import pathlib
import re

import pytest

from .conftest import QUICK, Cli, read_json


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "files"


@pytest.fixture
def kept(cli: Cli, papers: pathlib.Path, root: pathlib.Path) -> pathlib.Path:
    """The database after a run that kept two files."""
    ran = cli("run", papers, "papers", *QUICK, "-s", "store", root)
    assert ran.exit_code == 0, ran.output
    return papers


def test_a_store_that_agrees_with_the_tables_is_fine(cli: Cli, kept: pathlib.Path, root: pathlib.Path) -> None:
    result = cli("store", "check", kept, "-s", "store", root, "--hash")
    assert result.exit_code == 0, result.output
    size = sum(path.stat().st_size for path in root.rglob("*.pdf"))
    first, last = result.stdout.splitlines()
    assert re.fullmatch(rf"{re.escape(str(root))}: 2 files, {size:,} bytes\. The tables name \d+ bodies\.", first)
    assert last == "Every file is there and whole, and every one is named."


def test_what_is_wrong_is_listed(cli: Cli, kept: pathlib.Path, root: pathlib.Path) -> None:
    gone, cut = sorted(root.rglob("*.pdf"))
    gone.unlink()
    size = cut.stat().st_size
    cut.write_bytes(cut.read_bytes()[:-1])
    for number in range(25):
        name = f"{number:040x}"
        orphan = root / "body" / name[:2] / name[2:4] / f"{name}.pdf"
        orphan.parent.mkdir(parents=True, exist_ok=True)
        orphan.write_bytes(b"x")
    result = cli("store", "check", kept, "-s", "store", root)
    assert result.exit_code == 1
    said = result.stdout
    assert f"missing:\n  body {gone.stem}\n" in said
    assert f"damaged:\n  {cut.relative_to(root)}  {size - 1:,} bytes instead of {size:,}\n" in said
    assert "  and 5 more; list them with --all\n" in said and said.count("0000.pdf  1 byte") <= 20
    assert re.search(r"^orphan +25  none of these databases names it; another one may$", said, re.MULTILINE)
    assert cli("store", "check", kept, "-s", "store", root, "--all").stdout.count("1 byte\n") == 25
    found = read_json(cli("store", "check", kept, "-s", "store", root, "--json"))
    assert (found["ok"], found["counts"]) == (False, {"missing": 1, "damaged": 1, "unfinished": 0, "orphan": 25})
    assert found["faults"][0] == {
        "fault": "missing", "kind": "body", "sha1hex": gone.stem, "key": None, "size": None, "expected": None,
    }  # fmt: skip
    assert len(found["faults"]) == 27 and sorted(root.rglob("*.pdf")), "nothing is deleted"


def test_the_store_may_stand_in_a_configuration_file(cli: Cli, kept: pathlib.Path, root: pathlib.Path) -> None:
    config = root.with_name("metadata.yml")
    config.write_text(json.dumps({"plugins": {"datasette-ingest": {"store": str(root)}}}))
    found = read_json(cli("store", "check", kept, "-c", config, "--json"))
    assert found["ok"] is True and found["store"] == str(root) and found["faults"] == []


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        ((), 2, "Name the store with -s store PLACE, or a configuration file that has it with -c FILE"),
        (("-s", "store", "s3:///x"), 2, "store: expected the path of a folder, or s3://bucket/prefix with the name"),
        (("-s", "store", "ftp://x"), 2, "store: expected the path of a folder, or s3://bucket/prefix with the name"),
    ],
)
def test_without_a_store_it_says_what_to_write(
    cli: Cli, papers: pathlib.Path, more: tuple[str, ...], code: int, said: str
) -> None:
    result = cli("store", "check", papers, *more)
    assert result.exit_code == code and said in " ".join(result.stderr.split())


def test_a_store_that_is_not_there_is_one_line(cli: Cli, papers: pathlib.Path, root: pathlib.Path) -> None:
    for place, said in ((root, "No such file or directory"), ("s3://bodies", "HTTP error: error sending request")):
        more = ("-s", "store_endpoint", "http://127.0.0.1:9") if place == "s3://bodies" else ()
        keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
        with pytest.MonkeyPatch.context() as environment:
            for name, value in keys.items():
                environment.setenv(name, value)
            result = cli("store", "check", papers, "-s", "store", place, *more)
        assert result.exit_code == 1 and result.stderr.count("\n") == 1
        assert result.stderr.startswith(f"Error: The store {place} cannot be read: ") and said in result.stderr


def test_a_url_that_cannot_be_kept_is_one_line(cli: Cli, site: str, tmp_path: pathlib.Path) -> None:
    missing = tmp_path / "no" / "files"
    result = cli("url", f"{site}/files/herons.pdf", *QUICK, "-s", "store", missing)
    assert result.exit_code == 1
    assert result.stderr == f"Error: The store {missing} cannot be written: No such file or directory\n"
    there = tmp_path / "files"
    assert cli("url", f"{site}/files/herons.pdf", *QUICK, "-s", "store", there).exit_code == 0
    assert len(list(there.rglob("*.pdf"))) == 1
