"""Spellings of bibliographic facts, and texts that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest.page import biblio_values


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
    assert biblio_values.parse_date(text) == date


@pytest.mark.parametrize(
    ("clean", "text", "value"),
    [
        (biblio_values.clean_licence, "http://creativecommons.org/licenses/by-nc-nd/3.0/de/deed.en", "https://creativecommons.org/licenses/by-nc-nd/3.0/de/"),
        (biblio_values.clean_licence, "CC BY-SA 4.0", "CC-BY-SA-4.0"),
        (biblio_values.clean_licence, "CC0", "CC0-1.0"),
        (biblio_values.clean_licence, "Creative Commons Attribution-NonCommercial 4.0 International", "CC-BY-NC-4.0"),
        (biblio_values.clean_licence, "https://opensource.org/licenses/MIT", "https://opensource.org/licenses/MIT"),
        (biblio_values.clean_licence, "info:eu-repo/semantics/openAccess", None),
        (biblio_values.clean_licence, "© 2020 The Authors", None),
        (biblio_values.clean_language, "en_US", "en"),
        (biblio_values.clean_language, "ger", "de"),
        (biblio_values.clean_language, "Español", "es"),
        (biblio_values.clean_language, "und", None),
        (biblio_values.clean_release_stage, "info:eu-repo/semantics/acceptedVersion", "accepted"),
        (biblio_values.clean_release_stage, "http://purl.org/coar/version/c_970fb48d4fbd8a85", "published"),
        (biblio_values.clean_release_stage, "Preprint", "submitted"),
        (biblio_values.clean_release_stage, "info:eu-repo/semantics/article", None),
        (biblio_values.clean_title, "If p < 0.05 and CO<sub>2</sub> <b>rises</b>", "If p < 0.05 and CO2 rises"),
        (biblio_values.clean_title, "N/A", None),
        (biblio_values.clean_title, " … ", None),
        (biblio_values.clean_number, "x" * 50, None),
    ],
)  # fmt: skip
def test_a_fact_has_one_form_or_is_none(clean: object, text: str, value: str | None) -> None:
    assert callable(clean) and clean(text) == value


@given(st.text(max_size=200))
def test_no_text_stops_a_cleaner(text: str) -> None:
    for name in dir(biblio_values):
        if name.startswith("clean_") or name == "parse_date":
            getattr(biblio_values, name)(*((text, 50) if name == "clean_text" else (text,)))
