"""What the commands print, on standard output of any encoding, closed early or from the start, on a full device."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import shlex
import sqlite3
import subprocess
import sys
from typing import Any

import click
import pytest

from datasette_ingest.cli.output import EXIT_NOT_PRINTED, Output, echo_json, printing
from datasette_ingest.cli.tables import text_table

from ..conftest import rows
from .conftest import Cli, Stepper

pytestmark = pytest.mark.slow

ENCODINGS = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "cp437": {"PYTHONIOENCODING": "cp437"},
    "utf-16": {"PYTHONIOENCODING": "utf-16"},
    "LANG=C": {"LANG": "C", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "POSIX": {"LC_ALL": "POSIX"},
    "no environment": {},
}


@pytest.fixture
def papers(tmp_path: pathlib.Path) -> pathlib.Path:
    """A table whose name and values most encodings lack; its job is over in a moment, without a request."""
    path = tmp_path / "文 é\n.db"
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute('create table "tëst 文\n…" (id text primary key, url text)')
        conn.execute("""insert into "tëst 文\n…" values ('ключ', 'nö url'), ('\x1b[31m', ''), ('a', 'gopher://…/')""")
    return path


def shell(command: str, path: pathlib.Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of bash in which `ingest` is the command and `$DB` the file."""
    program = shlex.join([sys.executable, "-m", "datasette", "ingest"])
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "PYTHONPATH", "VIRTUAL_ENV") if key in os.environ}
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command.replace('ingest ', program + ' ')}"],
        env={**kept, **environment, "DB": str(path)},
        cwd=path.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )


RUN = "ingest run \"$DB\" $'tëst 文\\n…' --url-column url"


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param(environment, id=name, marks=() if name == "latin-1" else pytest.mark.slow)
        for name, environment in ENCODINGS.items()
    ],
)
def test_no_encoding_turns_a_finished_job_into_a_traceback(papers: pathlib.Path, environment: dict[str, str]) -> None:
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    ran = shell(RUN, papers, **environment)
    assert (ran.returncode, b"Traceback" in ran.stderr) == (0, False), ran.stderr
    assert "Job 1 is finished: 3 of 3 rows answered" in ran.stdout.decode(encoding)
    shown = shell('ingest show "$DB" 1 && ingest jobs "$DB"', papers, **environment)
    assert (shown.returncode, shown.stderr) == (0, b"")
    if encoding != "utf-16":  # two programs: two byte order marks
        assert "\\n" in shown.stdout.decode(encoding) and "\x1b" not in shown.stdout.decode(encoding)
    told = shell('ingest jobs "$DB" --json', papers, **environment)
    assert json.loads(told.stdout.decode(encoding))["jobs"][0]["table_name"] == "tëst 文\n…"
    refused = shell('ingest run "$DB" nö文', papers, **environment)
    assert (refused.returncode, b"Traceback" in refused.stderr) == (1, False)
    helped = shell("ingest run --help", papers, **environment, COLUMNS="1", NO_COLOR="1")
    assert helped.returncode == 0 and "\x1b" not in helped.stdout.decode(encoding)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "code"),
    [
        (" | head -c 1", 0),
        (" | true", 0),
        (" 2>&1 | true", 0),
        (" > /dev/full", EXIT_NOT_PRINTED),
        (" >&-", EXIT_NOT_PRINTED),
        (" 2>&-", 0),
        (" 2> /dev/full", 0),
        (" >&- 2>&-", EXIT_NOT_PRINTED),
        (" > /dev/full 2>&1", EXIT_NOT_PRINTED),
        (" <&- >&- 2>&-", EXIT_NOT_PRINTED),
        (" --json > /dev/full", EXIT_NOT_PRINTED),
    ],
)
def test_a_job_ends_as_it_would_whatever_happens_to_its_output(papers: pathlib.Path, ending: str, code: int) -> None:
    ran = shell(RUN + ending, papers)
    assert (ran.returncode, b"Traceback" in ran.stderr, b"Exception" in ran.stderr) == (code, False, False), ran.stderr
    assert rows(papers, "select status, done_count from _enrichment_jobs") == [("finished", 3)]
    if code and "2>" not in ending:
        (line,) = ran.stderr.decode().splitlines()
        assert line.startswith("Error: Standard output cannot be written: ")
    elif "2>" not in ending:
        assert ran.stderr == b""


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    ['ingest jobs "$DB"', 'ingest url "" --explain', "ingest --help", "ingest run --help", "ingest demo d$RANDOM.db"],
)
def test_every_command_says_that_its_output_is_lost(papers: pathlib.Path, command: str) -> None:
    ran = shell(command + " > /dev/full", papers)
    assert ran.returncode == (1 if "url" in command else EXIT_NOT_PRINTED)
    assert ran.stderr.decode().splitlines()[-1] == "Error: Standard output cannot be written: No space left on device"
    assert shell(command + " | true", papers).stderr == b""


@pytest.mark.parametrize("columns", ["1", "0", "-5", "20", "40", "many"])
def test_any_width_of_a_terminal_will_do(
    cli: Cli, papers: pathlib.Path, stepper: Stepper, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(Output, "isatty", lambda self: True)
    result = cli("run", papers, "tëst 文\n…", "--enrichment", "step")
    assert result.exit_code == 0, result.output
    assert cli("show", "--help").exit_code == 0


class Failing(io.StringIO):
    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


@pytest.mark.parametrize(
    ("stream", "body_code", "code"),
    [
        (None, 0, EXIT_NOT_PRINTED),
        (None, 1, 1),
        (Failing(OSError(28, "No space left on device")), 0, EXIT_NOT_PRINTED),
        (Failing(OSError(28, "No space left on device")), 75, 75),
        (Failing(BrokenPipeError(32, "Broken pipe")), 0, 0),
        (Failing(BrokenPipeError(32, "Broken pipe")), 75, 75),
        (io.StringIO(), 75, 75),
    ],
)
def test_the_exit_code_is_the_commands_unless_only_its_output_failed(
    monkeypatch: pytest.MonkeyPatch, stream: Any, body_code: int, code: int
) -> None:
    monkeypatch.setattr(sys, "stdout", stream)
    ended = 0
    try:
        with printing():
            click.echo("result")
            if body_code:
                raise SystemExit(body_code)
    except SystemExit as problem:
        ended = int(problem.code or 0)
    assert ended == code
    assert sys.stdout is stream


def test_what_a_server_said_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with printing():
        sys.stdout.write("a\x1b[2Jb\x9bc\rd\x00\tline\nnext\x7f\u2028\udcff")
    assert capsys.readouterr().out == "a\\u001b[2Jb\\u009bc\\rd\\u0000\tline\nnext\\u007f\\u2028\\udcff"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8", "utf-16", "shift_jis", "koi8-r"])
def test_json_is_the_same_value_in_every_encoding(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    value = {"key…": ["█", "文", "\x7f\x9f\x1b\n", "\U0001f600", "\ud800", "é", "“"]}
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding))
    with printing():
        echo_json(value)
    assert json.loads(raw.getvalue().decode(encoding)) == value


def test_characters_that_an_encoding_lacks_are_written_as_others_that_look_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "ascii"))
    with printing():
        click.echo("█░ wait… “é”")
    assert raw.getvalue() == b'#. wait... "\\u00e9"\n'


def test_a_cell_of_a_table_is_one_line() -> None:
    assert text_table(("a", "b"), [("x\ny", 1), ("\ufeffz", None)]).splitlines()[1:] == ["x\\ny     1", "\\ufeffz"]
