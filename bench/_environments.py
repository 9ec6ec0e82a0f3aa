"""Python environments for peers: made once, kept in a cache folder, made anew when what they hold changes."""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence

PROJECT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(
    os.environ.get("INGEST_BENCH_CACHE")
    or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "datasette-ingest-bench"
)


class NoEnvironment(Exception):
    """An environment could not be made; the message holds the installer's last words."""


def environment(
    name: str,
    requirements: Sequence[str],
    *,
    editable: Iterable[pathlib.Path] = (),
    copied: Iterable[pathlib.Path] = (),
) -> pathlib.Path:
    """The Python of an environment that holds these requirements.

    :param editable: projects to install in place, so that their code is always the code as it stands
    :param copied: projects to install from a copy, so that no build leaves files in them
    :raises NoEnvironment: when something cannot be installed
    """
    editable, copied = list(editable), list(copied)
    folder = CACHE / f"{name}-{_digest(requirements, editable, copied)}"
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"making the environment {folder}", file=sys.stderr)
    _run([sys.executable, "-m", "venv", str(folder)])
    with tempfile.TemporaryDirectory() as scratch:
        copies = [shutil.copytree(project, pathlib.Path(scratch) / project.name) for project in copied]
        places = [word for project in editable for word in ("-e", str(project))] + [str(copy) for copy in copies]
        _run([str(python), "-m", "pip", "install", "--quiet", *requirements, *places])
    (folder / "complete").touch()
    return python


def _digest(requirements: Sequence[str], editable: Sequence[pathlib.Path], copied: Sequence[pathlib.Path]) -> str:
    parts = [sys.version, *requirements]
    parts += [str(project) + _metadata(project) for project in editable]
    parts += [file.read_text("utf-8") for project in copied for file in sorted(project.iterdir()) if file.is_file()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _metadata(project: pathlib.Path) -> str:
    """What an installation depends on; the settings of tools, which come last, are no part of it."""
    return (project / "pyproject.toml").read_text("utf-8").partition("\n[tool.")[0]


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines()
        raise NoEnvironment(f"{' '.join(command[:4])} … failed: {' / '.join(words[-3:])}")
