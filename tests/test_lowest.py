"""The constraints by which CI installs the lowest version of every dependency."""

from __future__ import annotations

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]


def test_every_dependency_with_a_lower_bound_is_held_to_it() -> None:
    printed = subprocess.run([sys.executable, ROOT / ".ci" / "lowest.py"], capture_output=True, check=True, text=True)
    lines = printed.stdout.splitlines()
    content = (ROOT / "pyproject.toml").read_text("utf-8")
    assert (
        len(lines)
        == len(set(lines))
        == content.count(">=") - content.count('requires-python = ">=') - content.count('"setuptools>=')
    )
    assert "protego==0.7" in lines and "httpx==0.27" in lines
    assert "tomli==2; python_version < '3.11'" in lines
