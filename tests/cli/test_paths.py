"""A path on the command line is that file, whatever its name holds; nothing else is made or written."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterator

import pytest

from datasette_ingest import compat
from datasette_ingest.cli.paths import shell_word

from ..conftest import serving
from .conftest import QUICK, Cli, Stepper, read_json

pytestmark = pytest.mark.slow

NAMES = [
    "my papers.db",
    "my%20papers.db",
    "100%.db",
    "a%2Fb.db",
    "%00.db",
    "papers#1.db",
    "papers?.db",
    "papers?mode=memory.db",
    "a&b=c;d.db",
    "a:b.db",
    "file:x.db",
    "file:x.db?mode=memory",
    ":memory:",
    "-papers.db",
    "--help",
    "'q\"uo`te'.db",
    "$HOME.db",
    "back\\slash.db",
    "caf\u00e9 \u6587.db",
    "line\nbreak.db",
    " blanks ",
    ".db",
    "_internal.db",
    "_memory.db",
    "papers",
    os.fsdecode(b"caf\xe9\xff.db"),
]


WORST = ["my%20papers.db", "papers?.db", "-papers.db", os.fsdecode(b"caf\xe9\xff.db")]


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """An empty folder, which the commands run in."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    yield home


def make(path: str | pathlib.Path, name: str = "papers") -> None:
    """A database with a table of two rows, made without any of our code."""
    plain = pathlib.Path("plain-name.db")
    with contextlib.closing(sqlite3.connect(plain)) as conn, conn:
        conn.execute(f"create table {name} (id integer primary key, url text)")
        conn.execute(f"insert into {name} (url) values ('http://127.0.0.1:1/a'), ('')")
    plain.rename(path)


def look(path: str | pathlib.Path, sql: str) -> list[tuple[object, ...]]:
    """Rows of the file, read through a copy with a plain name."""
    plain = pathlib.Path(path).absolute().parent.parent / "copy-to-look-at.db"
    plain.write_bytes(pathlib.Path(path).read_bytes())
    with contextlib.closing(sqlite3.connect(plain)) as conn:
        return conn.execute(sql).fetchall()


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_run_reads_and_writes_this_file_and_leaves_no_other(
    cli: Cli, stepper: Stepper, folder: pathlib.Path, name: str
) -> None:
    make(name)
    assert cli("run", "--enrichment", "step", "--", name, "papers").exit_code == 0
    assert look(name, "select mark from papers") == [("seen",), ("seen",)]
    assert os.listdir() == [name]


@pytest.mark.parametrize("name", WORST, ids=ascii)
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_every_command_reads_and_writes_this_file_and_leaves_no_other(
    cli: Cli, stepper: Stepper, folder: pathlib.Path, name: str, journal: str
) -> None:
    pathlib.Path("decoy").mkdir()
    make("decoy/x")
    make(name)
    if journal == "wal":
        pathlib.Path(name).rename("p.db")
        with contextlib.closing(sqlite3.connect("p.db")) as conn:
            conn.execute("pragma journal_mode = wal")
        pathlib.Path("p.db").rename(name)
    before = sorted(os.listdir())

    stepper.faults[:] = ["pause"]
    assert cli("run", "--enrichment", "step", "--json", "--", name, "papers").exit_code == 75
    assert read_json(cli("jobs", "--json", "--", name))["jobs"][0]["status"] == "paused"
    assert cli("resume", "--json", "--", name, 1).exit_code == 0
    assert look(name, "select mark from papers") == [("seen",), ("seen",)]
    assert cli("show", "--", name, 1).exit_code == 0
    stepper.faults[:] = ["error"]
    assert cli("run", "--enrichment", "step", "--", name, "papers").exit_code == 0
    assert cli("retry", "--no-run", "--", name, 2).exit_code == 0
    assert cli("pause", "--", name, 3).exit_code == 0
    assert cli("resume", "--no-run", "--", name, 3).exit_code == 0
    assert cli("work", "--", name).exit_code == 0
    assert cli("cache", "prune", "--", name).exit_code == 0
    assert cli("cancel", "--", name, 3).exit_code == 1  # it is finished
    assert look(name, "select status from _enrichment_jobs order by id") == [("finished",)] * 3
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("name", [*WORST, "file:x.db", ":memory:", "line\nbreak.db"], ids=ascii)
def test_the_demo_writes_this_file_and_no_other(cli: Cli, folder: pathlib.Path, name: str) -> None:
    result = cli("demo", "--", name)
    assert result.exit_code == 0, result.output
    assert os.listdir() == [name]
    assert look(name, "select count(*) from papers where ingest_status is not null") == [(11,)]
    if set("%?#") & set(name):
        assert "Rename it before you open it" in result.stdout
    else:
        command = result.stdout.splitlines()[-1] if "\n" not in name else ""
        assert not command or shell_word(pathlib.Path(name)) in command


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_the_word_that_messages_give_is_this_file_to_a_shell(folder: pathlib.Path, name: str) -> None:
    pathlib.Path(name).write_text("found", "utf-8")
    word = shell_word(pathlib.Path(name))
    assert word.isprintable()
    assert subprocess.run(["bash", "-c", f"cat {word}"], capture_output=True, check=True).stdout == b"found"
    if word[0] != "$":
        assert pathlib.Path(*shlex.split(word)) == pathlib.Path(name)


@pytest.mark.parametrize("name", ["my%20papers.db", "papers#1.db", "papers?.db"])
def test_the_process_of_a_shell_gets_the_same_file(folder: pathlib.Path, name: str) -> None:
    make(name)
    shown = subprocess.run(
        [sys.executable, "-m", "datasette", "ingest", "run", name, "papers", "--json", *QUICK],
        capture_output=True,
        check=True,
        text=True,
    )
    assert json.loads(shown.stdout)["status"] == "finished"
    assert os.listdir() == [name]


@pytest.mark.parametrize("link", ["relative", "absolute", "hard", "of a folder", "through a parent"])
def test_a_link_is_the_file_that_it_leads_to(cli: Cli, stepper: Stepper, folder: pathlib.Path, link: str) -> None:
    pathlib.Path("real").mkdir()
    make("real/a%b.db")
    given = "link.db"
    if link == "relative":
        os.symlink("real/a%b.db", "link.db")
    elif link == "absolute":
        os.symlink(folder / "real" / "a%b.db", "link.db")
    elif link == "hard":
        os.link("real/a%b.db", "link.db")
    elif link == "of a folder":
        os.symlink("real", "folder?")
        given = "folder?/a%b.db"
    else:
        (folder / "deep").mkdir()
        os.symlink(folder / "real", folder / "deep" / "l")
        pathlib.Path("real/inner").mkdir()
        given = "deep/l/inner/../a%b.db"
    assert cli("run", "--enrichment", "step", given, "papers").exit_code == 0
    assert look("real/a%b.db", "select mark from papers") == [("seen",), ("seen",)]
    assert os.listdir("real") in (["a%b.db"], ["inner", "a%b.db"], ["a%b.db", "inner"])


def test_two_databases_of_one_stem_are_two_and_one_given_twice_is_one(
    cli: Cli, stepper: Stepper, folder: pathlib.Path
) -> None:
    for number, path in enumerate(["one/papers.db", "two/papers.db"]):
        pathlib.Path(path).parent.mkdir()
        make(path, f"t{number}")
        os.symlink(f"{path}", f"link{number}.db")
        stepper.faults[:] = ["pause"]
        cli("run", "--enrichment", "step", path, f"t{number}")
        cli("resume", "--no-run", path, 1)
    assert cli("work", "one/papers.db", "two/papers.db", "link1.db", "./one/../one/papers.db").exit_code == 0
    for number, path in enumerate(["one/papers.db", "two/papers.db"]):
        assert look(path, f"select mark from t{number}") == [("seen",), ("seen",)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("folder", "is a directory."),
        ("folder/", "is a directory."),
        ("folder/.", "is a directory."),
        (".", "is a directory."),
        ("papers.db/", "is a directory."),
        ("", "The path is empty."),
        ("/dev/null", "is not a file but a device, a pipe or a socket."),
        ("/dev/full", "is not a file but a device, a pipe or a socket."),
        ("pipe", "is not a file but a device, a pipe or a socket."),
    ],
)
@pytest.mark.parametrize("verb", [("jobs",), ("show", 1), ("work",), ("demo",), ("run", "papers")])
def test_what_is_no_file_is_wrong_usage(
    cli: Cli, folder: pathlib.Path, given: str, message: str, verb: tuple[str, ...]
) -> None:
    make("papers.db")
    pathlib.Path("folder").mkdir()
    os.mkfifo("pipe")
    before = sorted(os.listdir())
    result = cli(verb[0], given, *verb[1:])
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].endswith(message)
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize(("given", "code"), [("nosuch/", 2), ("nosuch/a.db", 1), ("dangling", 1)])
def test_the_demo_makes_no_file_where_none_was_named(cli: Cli, folder: pathlib.Path, given: str, code: int) -> None:
    os.symlink("nowhere", "dangling")
    result = cli("demo", given)
    assert (result.exit_code, result.stdout) == (code, "")
    assert os.listdir() == ["dangling"]


async def test_inside_datasettes_own_server_we_write_the_file_that_it_reads(
    folder: pathlib.Path, stepper: Stepper
) -> None:
    """Datasette reads `my%20papers.db` as `my papers.db`: so do we, through all of our connections."""
    from datasette.database import Database

    make("my papers.db")
    async with serving(folder / "my papers.db") as datasette:
        theirs = datasette.add_database(Database(datasette, "my%20papers.db", is_mutable=True), name="theirs")
        assert compat.file_of(theirs) == "my papers.db"
        assert compat.file_id(theirs) == compat.file_id(datasette.databases["my papers"])
        connection = compat.connect_for_writing(theirs)
        assert connection is not None
        with contextlib.closing(connection):
            connection.execute("update papers set url = 'written'")
        read = await compat.read(theirs, lambda conn: conn.execute("select distinct url from papers").fetchall())
        assert [tuple(row) for row in read] == [("written",)]
    assert os.listdir() == ["my papers.db"]


async def test_an_immutable_file_is_this_file_too(folder: pathlib.Path) -> None:
    make("a#b%41?.db")
    datasette = compat.open_datasette([], immutables=["a#b%41?.db"])
    (db,) = (db for db in datasette.databases.values() if compat.file_of(db) is not None)
    assert len(db.hash) == 64 and db.size == pathlib.Path("a#b%41?.db").stat().st_size and not db.is_mutable
    assert await compat.read(db, lambda conn: conn.execute("select count(*) from papers").fetchone()[0]) == 2
    compat.close(datasette)
    assert os.listdir() == ["a#b%41?.db"]


async def test_a_file_that_is_gone_is_not_made_anew(folder: pathlib.Path) -> None:
    make("papers.db")
    async with serving(folder / "papers.db") as datasette:
        os.unlink("papers.db")
        db = datasette.databases["papers"]
        with pytest.raises(sqlite3.DatabaseError, match="is gone from its place"):
            await compat.write(db, lambda conn: conn.execute("create table t (a)"), pauses=())
    assert os.listdir() == []
