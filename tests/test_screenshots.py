"""The pictures of the README: the script that takes them runs, and those that are shown are what it takes."""

from __future__ import annotations

import pathlib
import re
import shutil
import struct
import subprocess
import sys

import pytest

from .conftest import missing
from .shown_pages import DOCS, PROJECT, text

SCRIPT = DOCS / "screenshots.py"
MOST_BYTES = 200_000


def size_of(path: pathlib.Path) -> tuple[int, int]:
    """(width, height) of a PNG file, as its header says (PNG specification, 11.2.1)."""
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n", f"{path} is no PNG file"
    width, height = struct.unpack(">II", head[16:24])
    return width, height


def test_the_readme_shows_a_job_and_a_result_in_small_files() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text("README.md"))
    assert shown == ["docs/images/job.png", "docs/images/result.png"]
    for name in shown:
        assert (PROJECT / name).stat().st_size < MOST_BYTES
        assert size_of(PROJECT / name)[0] == 1280


@pytest.mark.browser
@pytest.mark.slow
def test_the_script_takes_the_pictures_that_are_shown(tmp_path: pathlib.Path) -> None:
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        missing("Chromium")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    taken = {path.name: path for path in tmp_path.iterdir()}
    assert set(taken) == {path.name for path in (DOCS / "images").iterdir()}
    for path in taken.values():
        width, height = size_of(path)
        assert width == 1280 and height > 500 and 20_000 < path.stat().st_size < MOST_BYTES
