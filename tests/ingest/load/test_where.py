"""Conditions on records."""

from __future__ import annotations

import pytest

from datasette_ingest.ingest.load.where import Condition

from .kit import lines, load, place, unpaywall

RECORD = {
    "year": 2020,
    "is_oa": True,
    "genre": "journal-article",
    "publisher": "Elsevier BV",
    "issns": ["1234-5678", "2345-6789"],
    "empty": "",
    "nothing": None,
    "venue": {"type": "journal"},
}


@pytest.mark.parametrize(
    "text",
    [
        *("year=2020", "year=2020.0", "year__gte=2020", "year__lt=2021", "year__not=2019", "year__in=2019,2020"),
        *("is_oa=true", "genre__startswith=journal", "genre__endswith=article", "publisher__contains=elsevier"),
        *("issns=2345-6789", "venue.type=journal", "empty__isblank=1", "nothing__isblank=1", "absent__isblank=1"),
        *("absent__not=x", "year__notblank=1", "genre__gt=a"),
    ],
)
def test_conditions_that_hold(text: str) -> None:
    assert Condition.parse(text).holds(RECORD)


@pytest.mark.parametrize(
    "text",
    ["year=202", "is_oa=True", "is_oa=1", "absent=", "absent__lt=5", "venue.name=x", "genre.x=1", "year__isblank=1"],
)
def test_conditions_that_do_not(text: str) -> None:
    assert not Condition.parse(text).holds(RECORD)


@pytest.mark.parametrize("text", ["year", "=2020", "year__like=2", "__gt=3"])
def test_what_is_no_condition(text: str) -> None:
    with pytest.raises(ValueError, match=r"condition|operator"):
        Condition.parse(text)


def test_records_and_their_locations_are_chosen() -> None:
    publisher = place(url_for_pdf="http://p/1.pdf", host_type="publisher", is_best=True)
    repository = place(url_for_pdf="http://r/1.pdf", host_type="repository")
    content = lines(
        unpaywall("10.1/a", publisher, repository),
        unpaywall("10.1/b", place(url_for_pdf="http://r/2.pdf"), year=2019),
    )
    assert load(content, "unpaywall", where=["year__gte=2020"]).urls == ["http://p/1.pdf", "http://r/1.pdf"]
    assert load(content, "unpaywall", where=["location.host_type=repository"]).urls == [
        "http://r/1.pdf",
        "http://r/2.pdf",
    ]
    both = ["location.host_type=repository", "year__lt=2020"]
    assert load(content, "unpaywall", where=both).urls == ["http://r/2.pdf"]
