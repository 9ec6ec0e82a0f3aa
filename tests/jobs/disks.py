"""Real faults of a file system: permissions that hold, a small disk that is full, a mount that is read-only."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

import pytest

import datasette_ingest
from datasette_ingest.jobs import owner

from ..conftest import missing

NOBODY = 65534
CODE = pathlib.Path(datasette_ingest.__file__).parent / "static"


@contextlib.contextmanager
def permissions_that_hold() -> Iterator[pathlib.Path]:
    """A folder in which permission bits hold: root, whom they do not stop, acts as another user meanwhile. Skips the test
    where that user may not read this checkout, and so no page either."""
    owner.retire(owner.new_owner())  # reads what a process may read only as itself
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ingest-disk-"))
    was = os.geteuid()
    if was == 0:
        os.chown(folder, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        try:
            os.stat(CODE)
        except PermissionError:
            pytest.skip(f"{CODE} is closed to other users")
        yield folder
    finally:
        os.seteuid(was)
        shutil.rmtree(folder)


def _mount(*arguments: str) -> str | None:
    """What the system says against it; None where it is done."""
    try:
        done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    except OSError as problem:
        return str(problem)
    return None if done.returncode == 0 else done.stderr.strip()


@contextlib.contextmanager
def small_disk(size: str) -> Iterator[pathlib.Path]:
    """A file system of its own, of this size (`1m`). Skips the test where none can be mounted."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ingest-disk-"))
    try:
        refusal = _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
        if refusal is not None:
            missing(f"the right to mount a file system ({refusal})")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=True)
    finally:
        folder.rmdir()


def remount(folder: pathlib.Path, mode: str) -> None:
    """:param mode: `ro` or `rw`"""
    refusal = _mount("-o", f"remount,{mode}", str(folder))
    assert refusal is None, refusal
