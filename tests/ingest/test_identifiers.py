"""Identifiers in any spelling become one form, and what has a wrong check digit is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest import identifiers


@pytest.mark.parametrize(
    ("text", "doi"),
    [
        ("10.1234/ABC", "10.1234/abc"),
        ("doi:10.1234/abc", "10.1234/abc"),
        ("DOI: 10.1234/abc.", "10.1234/abc"),
        ("info:doi/10.1234/abc", "10.1234/abc"),
        ("https://dx.doi.org/10.1234/abc?x=1", "10.1234/abc"),
        ("https://doi.org/10.1234%2Fabc", "10.1234/abc"),
        ("https://press.example.com/doi/abs/10.1234/abc#s1", "10.1234/abc"),
        ("10.1002/(SICI)1097(199806)49:8<693::AID-ASI4>3.0.CO;2-O", "10.1002/(sici)1097(199806)49:8<693::aid-asi4>3.0.co;2-o"),
        ("10.1234/abc)", "10.1234/abc"),
        ("10.1234", None),
        ("see 10.1234/abc here", None),
        ("10.1234/", None),
        ("", None),
    ],
)  # fmt: skip
def test_a_doi_is_bare_and_lower_case(text: str, doi: str | None) -> None:
    assert identifiers.find_doi(text) == doi


@pytest.mark.parametrize(
    ("clean", "text", "value"),
    [
        (identifiers.clean_issn, "ISSN: 20493630", "2049-3630"),
        (identifiers.clean_issn, "2049-3630 (online)", "2049-3630"),
        (identifiers.clean_issn, "2434-561x", "2434-561X"),
        (identifiers.clean_issn, "2049-3631", None),
        (identifiers.clean_issn, "0000-0000", None),
        (identifiers.clean_isbn, "ISBN 978-3-16-148410-0", "9783161484100"),
        (identifiers.clean_isbn, "0-306-40615-2", "0306406152"),
        (identifiers.clean_isbn, "978-3-16-148410-1", None),
        (identifiers.clean_orcid, "https://orcid.org/0000-0002-1825-0097", "0000-0002-1825-0097"),
        (identifiers.clean_orcid, "0000-0002-1825-0098", None),
        (identifiers.clean_pmid, "https://pubmed.ncbi.nlm.nih.gov/31415926/", "31415926"),
        (identifiers.clean_pmid, "0", None),
        (identifiers.clean_pmcid, "PMC1234567", "PMC1234567"),
        (identifiers.clean_pmcid, "1234567", "PMC1234567"),
        (identifiers.clean_arxiv_id, "arXiv:2001.00001", "2001.00001"),
        (identifiers.clean_arxiv_id, "math.GT/0309136", "math.GT/0309136"),
        (identifiers.clean_arxiv_id, "2001", None),
    ],
)
def test_an_identifier_has_one_form_or_is_none(clean: object, text: str, value: str | None) -> None:
    assert callable(clean) and clean(text) == value


@given(st.text(max_size=200))
def test_no_text_stops_the_reading_of_an_identifier(text: str) -> None:
    for name in dir(identifiers):
        if name.startswith("clean_") or name == "find_doi":
            getattr(identifiers, name)(text)
