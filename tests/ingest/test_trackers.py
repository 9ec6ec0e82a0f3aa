"""Lists of hosts: the one that comes with the package, and those of others."""

from __future__ import annotations

import pathlib

import pytest

from datasette_ingest.ingest.settings import CrawlSettings
from datasette_ingest.ingest.trackers import TRACKERS, is_tracker, read_hosts


@pytest.mark.parametrize(
    ("url", "is_one"),
    [
        ("https://www.google-analytics.com/a.js", True),
        ("http://securepubads.g.doubleclick.net:8080/x", True),
        ("https://ads.plos.org/x", True),
        ("https://plos.org/ads.js", False),
        ("https://mydoubleclick.net/x", False),
        ("https://cdn.jsdelivr.net/npm/mathjax", False),
        ("https://loads.example/x", False),
        ("http://127.0.0.1/x", False),
        ("http://[::1]/x", False),
    ],
)
def test_the_list_that_comes_along_names_hosts_and_all_below_them(url: str, is_one: bool) -> None:
    assert is_tracker(url, read_hosts(TRACKERS)) is is_one


def test_a_list_may_be_a_hosts_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "hosts"
    path.write_text(
        "# mine\n127.0.0.1 localhost\n::1 localhost\n0.0.0.0 A.example # shop\n\nb.example\n0.0.0.0 0.0.0.0\n"
    )
    assert read_hosts(str(path)) == {"a.example", "b.example"}


@pytest.mark.parametrize("line", ["https://a.example/x", "||a.example^", "a.example b.example c.example", "word"])
def test_a_list_of_another_form_is_refused_with_its_line(tmp_path: pathlib.Path, line: str) -> None:
    path = tmp_path / "hosts"
    path.write_text(f"b.example\n{line}\n")
    with pytest.raises(ValueError, match=r"line 2 of .* names no host"):
        CrawlSettings(trackers_file=str(path))


def test_a_list_that_is_not_there_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        CrawlSettings(trackers_file=str(tmp_path / "none"))
