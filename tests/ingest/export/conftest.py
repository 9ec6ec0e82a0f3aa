from __future__ import annotations

import pathlib

import pytest

from .kit import Library


@pytest.fixture
def library(tmp_path: pathlib.Path) -> Library:
    return Library(tmp_path / "works.db")
