"""What authors are shown works as installed packages do: the package in examples/ and the one that docs/enrichments.md
makes from nothing."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
from typing import Any

import pytest

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10, where pytest itself needs tomli
    import tomli as tomllib

PROJECT = pathlib.Path(__file__).resolve().parents[1]
DOCS = PROJECT / "docs"
EXAMPLE = PROJECT / "examples" / "datasette-ingest-examples"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables under which Python finds the example installed: its folder, and beside it what an installer writes from
    its pyproject.toml. Nothing is built or fetched."""
    return found_installed(EXAMPLE, tmp_path_factory.mktemp("site"))


def found_installed(package: pathlib.Path, site: pathlib.Path) -> dict[str, str]:
    """Variables under which Python finds the project in this folder installed; `site` is an empty folder."""
    project = tomllib.loads((package / "pyproject.toml").read_text("utf-8"))["project"]
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = "".join(
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in names.items())
        for group, names in project["entry-points"].items()
    )
    (info / "entry_points.txt").write_text(points)
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(site), str(package), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]),
        "NO_PROXY": "127.0.0.1",
    }


def run(command: list[str], environment: dict[str, str], folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, encoding="utf-8", timeout=300, check=False
    )


def ingest(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "datasette", "ingest", *arguments]


def rows(path: pathlib.Path, sql: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as conn:
        return conn.execute(sql).fetchall()


@pytest.mark.slow
def test_its_own_tests_pass(environment):
    done = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], environment, EXAMPLE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b\d+ passed", done.stdout) and "skipped" not in done.stdout, done.stdout


@pytest.mark.slow
def test_the_commands_of_its_readme_do_what_it_says(environment, tmp_path):
    [script] = re.findall(r"```bash\n(.*?)```", (EXAMPLE / "README.md").read_text("utf-8"), re.DOTALL)
    done = run(["bash", "-euo", "pipefail", "-c", script], environment, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Job 1 is finished: 2 of 2 rows answered." in done.stdout
    assert rows(tmp_path / "library.db", "select shouted from papers order by id") == [
        ("ON GROWTH AND FORM",),
        ("THE ART OF THE SOLUBLE",),
    ]


def test_the_test_in_its_readme_is_one_of_its_tests():
    [sample] = re.findall(r"```python\n(.*?)```", (EXAMPLE / "README.md").read_text("utf-8"), re.DOTALL)
    name = re.search(r"def (test_\w+)", sample)
    assert name and f"async def {name[1]}(" in (EXAMPLE / "tests" / "test_shout.py").read_text("utf-8")


def test_every_file_of_its_tree_is_there_and_in_the_package():
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))
    [package] = project["tool"]["setuptools"]["packages"]
    assert list(project["project"]["entry-points"]["datasette"].values()) == [package]
    named = set(re.findall(r"^    (\w+\.py) ", (EXAMPLE / "README.md").read_text("utf-8"), re.MULTILINE))
    assert named == {path.name for path in (EXAMPLE / package).glob("*.py")}


@pytest.mark.slow
def test_the_command_waits_for_a_limited_api_or_leaves_the_job_paused(environment, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLE / "tests")
    from fake_api import serving

    path = tmp_path / "library.db"
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("create table papers (id integer primary key, title text)")
        conn.executemany("insert into papers (title) values (?)", [("one",), ("two",)])
    command = ingest("run", str(path), "papers", "--enrichment", "translate", "--set", "column=title")
    with serving() as api:
        given = {**environment, "EXAMPLE_TRANSLATE_URL": api.url, "DATASETTE_SECRETS_EXAMPLE_TRANSLATE_KEY": "key-1"}
        api.limits = ["3600"]
        left = run([*command, "--no-wait", "--json"], given, tmp_path)
        assert left.returncode == 75, left.stderr
        job = json.loads(left.stdout)
        assert (job["status"], job["pause_reason"]) == ("paused", "The API asks for a rest") and job["resume_at"]

        api.limits = ["1"]
        waited = run(command, given, tmp_path)
        assert waited.returncode == 0, waited.stderr
        [_, (_, limited), (status, next_asked), _] = api.answers
        assert status == 200 and next_asked - limited > 0.99  # the protocol counts in seconds; we stamp milliseconds
    assert rows(path, "select translated from papers order by id") == [("one in en",), ("two in en",)]
    assert api.asked == ["one", "two"] and api.keys == {"key-1"}


@pytest.mark.slow
def test_the_package_that_the_documentation_makes_from_nothing_does_what_it_says(tmp_path):
    page = (DOCS / "enrichments.md").read_text("utf-8").partition("## The class")[0]
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    named = re.findall(r"^`(\w+\.\w+)` ", page, re.MULTILINE)
    folder, site = tmp_path / "package", tmp_path / "site"
    folder.mkdir()
    site.mkdir()
    for name, content in zip(named, (text for language, text in blocks if language in ("python", "toml")), strict=True):
        (folder / name).write_text(content, "utf-8")
    environment = found_installed(folder, site)
    test, commands = (content for language, content in blocks if language == "bash")
    assert test.splitlines() == ["pip install -e '.[test]'", "pytest"]
    tested = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], environment, folder)
    assert tested.returncode == 0 and "1 passed" in tested.stdout, tested.stdout + tested.stderr
    done = run(["bash", "-euo", "pipefail", "-c", commands], environment, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    [shown] = [content for language, content in blocks if language == ""]
    assert [line.rstrip() for line in done.stdout.splitlines() if line] == [
        line.rstrip() for line in shown.splitlines()
    ]
