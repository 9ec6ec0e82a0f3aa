"""An environment that holds this project and datasette-enrichments, as a user would install them side by side."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

from ..conftest import missing

PROJECT = pathlib.Path(__file__).resolve().parents[2]
SCENARIOS = pathlib.Path(__file__).with_name("scenarios.py")
DATASETTE = importlib.metadata.version("datasette")
NEIGHBOUR = (
    ["datasette-enrichments==0.5.1"]
    if DATASETTE.startswith("0.")
    else ["datasette-enrichments==0.6a0", "--pre"]  # what it needs is pre-released, too
)
UNREACHABLE = ("No matching distribution", "ConnectionError", "NewConnectionError", "Name or service not known")
SCENARIO_SECONDS = 90

Play = Callable[[str], None]


@pytest.fixture(scope="session")
def side_by_side() -> pathlib.Path:
    """The Python of that environment, kept in a cache folder from one run to the next."""
    requirements = [f"datasette=={DATASETTE}", *NEIGHBOUR]
    metadata = (PROJECT / "pyproject.toml").read_text("utf-8").partition("\n[tool.")[0]
    digest = hashlib.sha256("\0".join([sys.version, str(PROJECT), metadata, *requirements]).encode()).hexdigest()[:12]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = cache / "datasette-ingest-tests" / f"side-by-side-{digest}"
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", *requirements, "-e", str(PROJECT)]
    done = subprocess.run(install, capture_output=True, text=True)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if any(word in line for word in UNREACHABLE)]
        if said:
            missing(f"{NEIGHBOUR[0]} from the package registry ({said[-1].strip()})")
        pytest.fail(f"{NEIGHBOUR[0]} and this project cannot be installed together:\n{done.stderr[-2000:]}")
    (folder / "complete").touch()
    return python


@pytest.fixture(params=["datasette_ingest", "datasette_enrichments"], ids=["ours first", "theirs first"])
def play(request: pytest.FixtureRequest, side_by_side: pathlib.Path, tmp_path: pathlib.Path) -> Play:
    """Run one scenario in a process of its own, once with either plugin loaded first.

    Datasette loads plugins in the order in which their metadata is found: the folder of the one that is to be first
    stands once more at the head of the search path.
    """
    first: str = request.param
    (metadata,) = (side_by_side.parent.parent / "lib").glob(f"python*/site-packages/{first}-*.dist-info")
    head = tmp_path / "head"
    head.mkdir()
    (head / metadata.name).symlink_to(metadata)
    environ = {**os.environ, "PYTHONPATH": str(head), "FIRST_PLUGIN": first}

    def run(scenario: str) -> None:
        done = subprocess.run(
            [str(side_by_side), "-W", "error::RuntimeWarning", str(SCENARIOS), scenario, str(tmp_path / "data.db")],
            env=environ,
            cwd=tmp_path,  # in the project's own folder its metadata would be found first, whatever the order
            capture_output=True,
            text=True,
            timeout=SCENARIO_SECONDS,
        )
        assert done.returncode == 0, f"{scenario}, {first} first:\n{done.stdout}\n{done.stderr}"
        assert "never retrieved" not in done.stderr, done.stderr
        assert done.stdout.splitlines()[-1:] == [f"{scenario}: held"], done.stdout

    return run
