"""OpenAlex's works as requests."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from .kit import lines, load


def work(number: int = 1, **others: Any) -> dict[str, Any]:
    best = {
        "is_oa": True,
        "landing_page_url": "https://r.example.edu/7",
        "pdf_url": "https://r.example.edu/7.pdf",
        "version": "acceptedVersion",
        "license": "cc-by",
        "source": {"id": "https://openalex.org/S1", "type": "repository"},
    }
    closed = {"is_oa": False, "landing_page_url": "https://doi.org/10.5555/herons", "pdf_url": None, "source": None}
    landing = {"is_oa": True, "landing_page_url": "https://p.example/1", "pdf_url": None, "source": None}
    return {
        "id": f"https://openalex.org/W{number}",
        "doi": "https://doi.org/10.5555/Herons",
        "ids": {"pmid": "https://pubmed.ncbi.nlm.nih.gov/123", "pmcid": "https://www.ncbi.nlm.nih.gov/pmc/articles/77"},
        "open_access": {"oa_status": "green", "oa_url": "https://r.example.edu/7.pdf"},
        "best_oa_location": best,
        "locations": [closed, landing, best],
        "authorships": [],
        **others,
    }


def test_open_locations_are_requests_and_the_best_comes_first() -> None:
    loaded = load(lines(work()), "openalex", source="openalex")
    assert [row[:4] + row[6:7] for row in loaded.rows] == [
        ("pdf", "https://r.example.edu/7.pdf", "openalex", "https://openalex.org/W1", "accepted"),
        ("pdf", "https://p.example/1", "openalex", "https://openalex.org/W1", None),
    ]
    assert json.loads(loaded.rows[0][7]) == {
        "ext_ids": {"doi": "10.5555/herons", "pmid": "123", "pmcid": "77"},
        "oa_status": "green",
        "edit_extra": {"rank": 1, "license": "cc-by", "host_type": "repository"},
    }


def test_the_works_own_address_counts_where_it_is_another_one() -> None:
    loaded = load(lines(work(open_access={"oa_url": "https://x.example/1"}, locations=None)), "openalex")
    assert loaded.urls == ["https://r.example.edu/7.pdf", "https://x.example/1"]


def test_a_condition_on_locations_leaves_out_what_is_not_one_of_them() -> None:
    loaded = load(lines(work()), "openalex", where=["location.license__isblank=1"])
    assert loaded.urls == ["https://p.example/1"]


def test_the_parts_of_a_folder_are_read_in_order(tmp_path: Path) -> None:
    from datasette_ingest.ingest.load.load import files_of

    for day, number in (("2026-01-02", 2), ("2026-01-01", 1)):
        folder = tmp_path / "works" / f"updated_date={day}"
        folder.mkdir(parents=True)
        (folder / "part_000.gz").write_bytes(gzip.compress(lines(work(number))))
    (tmp_path / "works" / "manifest").write_text("{}")
    found = files_of(tmp_path)
    assert [path.parent.name for path in found] == ["updated_date=2026-01-01", "updated_date=2026-01-02"]
    assert {row[3] for path in found for row in load(path, "openalex").rows} == {
        "https://openalex.org/W1",
        "https://openalex.org/W2",
    }


def test_an_empty_part_of_a_snapshot_does_not_end_the_load(tmp_path: Path) -> None:
    for number, content in enumerate([lines(work(1)), b"", gzip.compress(b""), lines(work(2))]):
        (tmp_path / f"part_{number:03}").write_bytes(content)
    loaded = load(tmp_path, "openalex")
    assert loaded.stopped is None
    assert {row[3] for row in loaded.rows} == {"https://openalex.org/W1", "https://openalex.org/W2"}
