"""Spellings of bibliographic facts, and texts that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest.extract import facts


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2020", "2020"),
        ("2020-05-17T00:00:00Z", "2020-05-17"),
        ("2020/5/7", "2020-05-07"),
        ("2020/05", "2020-05"),
        ("20200517", "2020-05-17"),
        ("2020-05-00", "2020-05"),
        ("2020-00-00", "2020"),
        ("2020-02-31", "2020-02"),
        ("May 17, 2020", "2020-05-17"),
        ("17th May 2020", "2020-05-17"),
        ("17 de mayo de 2020", "2020-05-17"),
        ("17. Mai 2020", "2020-05-17"),
        ("12 мая 2020", "2020-05-12"),
        ("2020年5月17日", "2020-05-17"),
        ("Fri May 01 00:00:00 UTC 2020", "2020-05-01"),
        ("May 2020", "2020-05"),
        ("Spring 2020", "2020"),
        ("17.05.2020", "2020-05-17"),
        ("05/17/2020", "2020-05-17"),
        ("17/05/2020", "2020-05-17"),
        ("03/04/2020", "2020"),
        ("5/2020", "2020-05"),
        ("٢٠٢٠", "2020"),
        ("2019-2020", None),
        ("0000", None),
        ("3020-01-01", None),
        ("forthcoming", None),
        ("", None),
    ],
)
def test_a_date_is_never_more_exact_than_it_was_given(text: str, date: str | None) -> None:
    assert facts.parse_date(text) == date


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
    assert facts.find_doi(text) == doi


@pytest.mark.parametrize(
    ("clean", "text", "value"),
    [
        (facts.clean_issn, "ISSN: 20493630", "2049-3630"),
        (facts.clean_issn, "2049-3630 (online)", "2049-3630"),
        (facts.clean_issn, "2434-561x", "2434-561X"),
        (facts.clean_issn, "2049-3631", None),
        (facts.clean_issn, "0000-0000", None),
        (facts.clean_isbn, "ISBN 978-3-16-148410-0", "9783161484100"),
        (facts.clean_isbn, "0-306-40615-2", "0306406152"),
        (facts.clean_isbn, "978-3-16-148410-1", None),
        (facts.clean_orcid, "https://orcid.org/0000-0002-1825-0097", "0000-0002-1825-0097"),
        (facts.clean_orcid, "0000-0002-1825-0098", None),
        (facts.clean_pmid, "https://pubmed.ncbi.nlm.nih.gov/31415926/", "31415926"),
        (facts.clean_pmid, "0", None),
        (facts.clean_pmcid, "PMC1234567", "PMC1234567"),
        (facts.clean_pmcid, "1234567", "PMC1234567"),
        (facts.clean_arxiv_id, "arXiv:2001.00001", "2001.00001"),
        (facts.clean_arxiv_id, "math.GT/0309136", "math.GT/0309136"),
        (facts.clean_arxiv_id, "2001", None),
        (facts.clean_licence, "http://creativecommons.org/licenses/by-nc-nd/3.0/de/deed.en", "https://creativecommons.org/licenses/by-nc-nd/3.0/de/"),
        (facts.clean_licence, "CC BY-SA 4.0", "CC-BY-SA-4.0"),
        (facts.clean_licence, "CC0", "CC0-1.0"),
        (facts.clean_licence, "Creative Commons Attribution-NonCommercial 4.0 International", "CC-BY-NC-4.0"),
        (facts.clean_licence, "https://opensource.org/licenses/MIT", "https://opensource.org/licenses/MIT"),
        (facts.clean_licence, "info:eu-repo/semantics/openAccess", None),
        (facts.clean_licence, "© 2020 The Authors", None),
        (facts.clean_language, "en_US", "en"),
        (facts.clean_language, "ger", "de"),
        (facts.clean_language, "Español", "es"),
        (facts.clean_language, "und", None),
        (facts.clean_release_stage, "info:eu-repo/semantics/acceptedVersion", "accepted"),
        (facts.clean_release_stage, "http://purl.org/coar/version/c_970fb48d4fbd8a85", "published"),
        (facts.clean_release_stage, "Preprint", "submitted"),
        (facts.clean_release_stage, "info:eu-repo/semantics/article", None),
        (facts.clean_title, "If p < 0.05 and CO<sub>2</sub> <b>rises</b>", "If p < 0.05 and CO2 rises"),
        (facts.clean_title, "N/A", None),
        (facts.clean_title, " … ", None),
        (facts.clean_number, "x" * 50, None),
    ],
)  # fmt: skip
def test_a_fact_has_one_form_or_is_none(clean: object, text: str, value: str | None) -> None:
    assert callable(clean) and clean(text) == value


@given(st.text(max_size=200))
def test_no_text_stops_a_cleaner(text: str) -> None:
    for name in dir(facts):
        if name.startswith("clean_") or name in ("find_doi", "parse_date"):
            getattr(facts, name)(text)
