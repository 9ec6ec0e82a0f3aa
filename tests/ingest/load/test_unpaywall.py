"""Unpaywall's snapshot as requests; the fast way gives what IngestRequest gives."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest.model import IngestRequest
from datasette_ingest.ingest.store.requests import RequestRow, row_of

from .kit import GIVEN, lines, load, place, unpaywall


def test_each_location_is_a_request_and_the_best_comes_first() -> None:
    record = unpaywall(
        "10.5555/herons",
        place(url_for_landing_page="https://r.example.edu/7", version="submittedVersion", license="cc-by"),
        place(
            url="https://p.example/1",
            url_for_pdf="https://p.example/1.pdf",
            url_for_landing_page="https://p.example/1",
            version="publishedVersion",
            host_type="publisher",
            is_best=True,
        ),
        oa_status="hybrid",
    )
    loaded = load(lines(record), "unpaywall", source="unpaywall")
    assert [row[:7] for row in loaded.rows] == [
        ("pdf", url, "unpaywall", "10.5555/herons", "unknown", GIVEN.created, stage)
        for url, stage in (("https://p.example/1.pdf", "published"), ("https://r.example.edu/7", "submitted"))
    ]
    others = [json.loads(row[7]) for row in loaded.rows]
    assert others == [
        {
            "ext_ids": {"doi": "10.5555/herons"},
            "oa_status": "hybrid",
            "edit_extra": {"rank": 1, "host_type": "publisher"},
        },
        {
            "ext_ids": {"doi": "10.5555/herons"},
            "oa_status": "hybrid",
            "edit_extra": {"rank": 2, "license": "cc-by", "host_type": "repository"},
        },
    ]


def test_a_work_without_a_url_is_no_request_and_no_fault() -> None:
    empty = place(url="", url_for_landing_page=" ")
    loaded = load(lines(unpaywall("10.1/a"), unpaywall("10.1/b", place()), unpaywall("10.1/c", empty)), "unpaywall")
    assert (loaded.rows, loaded.refused) == ([], [])


def test_a_url_that_two_locations_have_is_one_request() -> None:
    twice = place(url_for_pdf="http://h/1.pdf", version="acceptedVersion")
    best = place(url_for_pdf="http://h/1.pdf", version="publishedVersion", is_best=True)
    (row,) = load(lines(unpaywall("10.1/a", twice, best)), "unpaywall").rows
    assert row[6] == "published"


def test_a_location_that_is_none_costs_its_line_only() -> None:
    good = unpaywall("10.1/a", place(url_for_pdf="http://h/1.pdf"))
    bad = [
        unpaywall("10.1/b", place(url_for_pdf=["http://h/2.pdf"])),
        unpaywall(" ", place(url_for_pdf="http://h/3.pdf")),
        {"oa_locations": {}, "doi": "10.1/c"},
        [1],
        unpaywall("10.1/d", place(url_for_pdf="http://h/\0.pdf")),
    ]
    loaded = load(lines(good, *bad, good), "unpaywall")
    assert loaded.urls == ["http://h/1.pdf"] * 2
    assert loaded.refused_lines == [2, 3, 4, 5, 6]


def test_half_of_a_surrogate_pair_matters_only_where_it_is_kept() -> None:
    in_title = unpaywall("10.1/a", place(url_for_pdf="http://h/1.pdf"), title="\ud835")
    in_url = unpaywall("10.1/b", place(url_for_pdf="http://h/\ud835.pdf"))
    loaded = load(b"\n".join(json.dumps(each).encode() for each in (in_title, in_url)), "unpaywall")
    assert (loaded.urls, loaded.refused_lines) == (["http://h/1.pdf"], [2])


def requests_of(record: dict[str, Any]) -> list[IngestRequest]:
    """The requests of a record, in plain words."""
    found: dict[str, IngestRequest] = {}
    stages = {"publishedVersion": "published", "acceptedVersion": "accepted", "submittedVersion": "submitted"}
    for each in sorted(record["oa_locations"], key=lambda each: not each["is_best"]):
        url = each["url_for_pdf"] or each["url_for_landing_page"] or each["url"]
        if not url or url.isspace() or url in found:
            continue
        extra = {"rank": len(found) + 1, "license": each["license"], "host_type": each["host_type"]}
        found[url] = IngestRequest(
            "pdf",
            url,
            "there",
            record["doi"],
            release_stage=stages.get(each["version"]),
            ext_ids={"doi": record["doi"]},
            oa_status=record["oa_status"],
            edit_extra={name: value for name, value in extra.items() if value is not None},
        )
    return list(found.values())


def plain(row: RequestRow | None) -> tuple[Any, ...]:
    assert row is not None
    return (*row[:7], json.loads(row[7] or "{}"))


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
URLS = st.none() | TEXT | st.sampled_from(["http://h/1", "http://h/2.pdf", ""])
PLACES = st.builds(
    place,
    url=URLS,
    url_for_pdf=URLS,
    url_for_landing_page=URLS,
    is_best=st.booleans(),
    version=st.none() | st.sampled_from(["publishedVersion", "acceptedVersion", "submittedVersion", "draft"]),
    license=st.none() | TEXT,
    host_type=st.none() | TEXT,
)


@given(doi=TEXT.filter(lambda text: not text.isspace()), places=st.lists(PLACES, max_size=4), status=st.none() | TEXT)
def test_rows_are_those_of_the_model(doi: str, places: list[dict[str, Any]], status: str | None) -> None:
    record = unpaywall(doi, *places, oa_status=status)
    loaded = load(lines(record), "unpaywall")
    assert not loaded.refused
    wanted = [plain(row_of(request, created=GIVEN.created)) for request in requests_of(record)]
    assert [plain(row) for row in loaded.rows] == wanted
