"""What a page says of its work, whatever vocabulary it says it in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest.page.biblio import Author, Biblio, doi_matches, read_biblio

HIGHWIRE = {
    "citation_title": ["Rotation <i>and</i> yield\n  on light soils"],
    "citation_author": ["Hallberg, Ida", "Osei, Kofi"],
    "citation_author_orcid": ["https://orcid.org/0000-0002-1825-0097", "0000-0001-5109-3700"],
    "citation_doi": ["https://doi.org/10.5555/ROT.1"],
    "citation_journal_title": ["Invented Fields"],
    "citation_publisher": ["Feldverlag"],
    "citation_issn": ["2049-3630", "0378-5955"],
    "citation_volume": ["12"],
    "citation_issue": ["3-4"],
    "citation_firstpage": ["101"],
    "citation_lastpage": ["119"],
    "citation_publication_date": ["2020/05/17"],
    "citation_language": ["eng"],
    "citation_pmid": ["31415926"],
    "citation_arxiv_id": ["2001.00001v2"],
    "citation_isbn": ["978-3-16-148410-0"],
    "citation_reference": ["citation_title=Other; citation_doi=10.5555/other; citation_author=Nobody"],
    "dc.rights": ["© 2020 the authors", "http://creativecommons.org/licenses/by/4.0/legalcode"],
}

ARTICLE: dict[str, Any] = {
    "@type": "ScholarlyArticle",
    "headline": "Root depth in dry valleys",
    "author": [
        {"@type": "Person", "name": "Ida Hallberg", "@id": "https://orcid.org/0000-0002-1825-0097"},
        {"@type": "Person", "givenName": "Kofi", "familyName": "Osei"},
    ],
    "identifier": {"@type": "PropertyValue", "propertyID": "DOI", "value": "10.5555/root.7"},
    "datePublished": "2021-03",
    "inLanguage": "en-GB",
    "license": "https://creativecommons.org/licenses/by-nc/4.0",
    "pagination": "7–19",
    "isPartOf": {
        "@type": "PublicationIssue",
        "issueNumber": 2,
        "isPartOf": {
            "@type": ["PublicationVolume", "Periodical"],
            "name": "Invented Fields",
            "volumeNumber": "13",
            "issn": ["2049-3630"],
            "publisher": {"@type": "Organization", "name": "Feldverlag"},
        },
    },
    "citation": [{"@type": "ScholarlyArticle", "name": "Another", "identifier": "10.5555/another"}],
}


def test_highwire_tags_give_every_fact_and_references_give_none() -> None:
    assert read_biblio(HIGHWIRE) == Biblio(
        title="Rotation and yield on light soils",
        authors=(Author("Hallberg, Ida", "0000-0002-1825-0097"), Author("Osei, Kofi", "0000-0001-5109-3700")),
        doi="10.5555/rot.1",
        journal="Invented Fields",
        publisher="Feldverlag",
        issn=("2049-3630", "0378-5955"),
        isbn=("9783161484100",),
        volume="12",
        issue="3-4",
        first_page="101",
        last_page="119",
        date="2020-05-17",
        licence="https://creativecommons.org/licenses/by/4.0/",
        language="en",
        pmid="31415926",
        arxiv_id="2001.00001v2",
    )


def test_json_ld_gives_the_work_and_what_it_is_part_of() -> None:
    assert read_biblio({}, [{"@type": "WebPage", "name": "A site"}, ARTICLE]) == Biblio(
        title="Root depth in dry valleys",
        authors=(Author("Ida Hallberg", "0000-0002-1825-0097"), Author("Kofi Osei")),
        doi="10.5555/root.7",
        journal="Invented Fields",
        publisher="Feldverlag",
        issn=("2049-3630",),
        volume="13",
        issue="2",
        first_page="7",
        last_page="19",
        date="2021-03",
        licence="https://creativecommons.org/licenses/by-nc/4.0/",
        language="en",
    )


def test_references_between_nodes_of_a_graph_are_followed() -> None:
    nodes = [
        {"@type": "Article", "name": "T", "isPartOf": {"@id": "#j"}, "author": {"@id": "#a"}},
        {"@type": "Periodical", "@id": "#j", "name": "Invented Fields"},
        {"@type": "Person", "@id": "#a", "name": "Ida Hallberg"},
    ]
    found = read_biblio({}, nodes)
    assert (found.journal, found.authors) == ("Invented Fields", (Author("Ida Hallberg"),))


@pytest.mark.parametrize(
    ("metas", "nodes", "title"),
    [
        ({"citation_title": ["H"], "dc.title": ["D"], "og:title": ["O"]}, [ARTICLE], "H"),
        ({"dc.title": ["D"], "og:title": ["O"]}, [ARTICLE], "Root depth in dry valleys"),
        ({"dc.title": ["D"], "eprints.title": ["E"], "og:title": ["O"], "prism.title": ["P"]}, [], "P"),
        ({"dc.title": ["D"], "eprints.title": ["E"], "og:title": ["O"]}, [], "D"),
        ({"dc:title": ["D"], "og:title": ["O"]}, [], "D"),
        ({"eprints.title": ["E"], "og:title": ["O"]}, [], "E"),
        ({"og:title": ["O"]}, [], "O"),
        ({"citation_title": ["undefined"], "og:title": ["O"]}, [], "O"),
    ],
)
def test_the_most_trusted_vocabulary_that_says_something_wins(
    metas: dict[str, list[str]], nodes: list[dict[str, Any]], title: str
) -> None:
    assert read_biblio(metas, nodes).title == title


def test_eprints_and_bepress_are_read() -> None:
    eprints = read_biblio(
        {
            "eprints.title": ["Slugs"],
            "eprints.creators_name": ["Osei, Kofi", "Hallberg, Ida"],
            "eprints.publication": ["Invented Fields"],
            "eprints.number": ["2"],
            "eprints.pagerange": ["pp. 5-9"],
            "eprints.id_number": ["doi:10.5555/slug"],
            "eprints.ispublished": ["inpress"],
            "eprints.date": ["2019-11"],
        }
    )
    assert (eprints.doi, eprints.issue, eprints.first_page, eprints.last_page) == ("10.5555/slug", "2", "5", "9")
    assert (eprints.release_stage, eprints.date, len(eprints.authors)) == ("accepted", "2019-11", 2)
    bepress = read_biblio({"bepress_citation_title": ["T"], "bepress_citation_author": ["Osei, Kofi"], "bepress_citation_date": ["2018"]})  # fmt: skip
    assert (bepress.title, bepress.date, bepress.authors) == ("T", "2018", (Author("Osei, Kofi"),))


@pytest.mark.parametrize(
    ("content", "authors"),
    [
        (["Hallberg, Ida; Osei, Kofi"], ["Hallberg, Ida", "Osei, Kofi"]),
        (["Hallberg, Ida", "hallberg, ida", " Osei,  Kofi "], ["Hallberg, Ida", "Osei, Kofi"]),
        (["", "Unknown", "https://example.org/me", "Osei, Kofi;"], ["Osei, Kofi"]),
    ],
)
def test_names_stay_as_they_are_written_each_once(content: list[str], authors: list[str]) -> None:
    assert [author.name for author in read_biblio({"citation_author": content}).authors] == authors


def test_an_orcid_goes_to_an_author_only_where_it_is_known_whose_it_is() -> None:
    found = read_biblio({"citation_author": ["A B", "C D"], "citation_author_orcid": ["0000-0002-1825-0097"]})
    assert [author.orcid for author in found.authors] == [None, None]


def test_the_first_identifier_that_is_a_doi_counts() -> None:
    metas = {"dc.identifier": ["oai:x:1", "ISSN 1234-5678", "http://hdl.example.org/1/2", "doi:10.5555/x"]}
    assert read_biblio(metas).doi == "10.5555/x"
    assert read_biblio({"dc.relation": ["10.5555/related"], "dc.description": ["see 10.5555/x"]}).doi is None


@pytest.mark.parametrize(
    ("expected", "known", "answer"),
    [
        ("10.5555/X", "10.5555/x", True),
        ("https://doi.org/10.5555/x", "10.5555/x", True),
        ("10.5555/x", "10.5555/y", False),
        ("10.1101/2020.01.01.123456v2", "10.1101/2020.01.01.123456", True),
        ("10.6084/m9.figshare.123", "10.6084/m9.figshare.123.v3", True),
        ("10.21203/rs.3.rs-123/v1", "10.21203/rs.3.rs-123/v2", True),
        ("10.12688/f1000research.1234.1", "10.12688/f1000research.1234.2", True),
        ("10.12688/f1000research.1234.1", "10.12688/f1000research.1235.1", False),
        ("10.5281/zenodo.100", "10.5281/zenodo.101", None),
        ("10.5281/zenodo.100", "10.5555/x", False),
        ("10.5555/x", None, None),
        ("no doi", "10.5555/x", None),
        (None, "10.5555/x", None),
    ],
)
def test_a_mismatch_is_one_only_where_both_are_known_and_not_versions_of_one_work(
    expected: str | None, known: str | None, answer: bool | None
) -> None:
    assert doi_matches(expected, Biblio(doi=known)) is answer


def test_json_holds_what_is_known_and_nothing_else() -> None:
    assert Biblio().to_json() == {}
    found = read_biblio(
        {"citation_title": ["Zwölf Hecken"], "citation_author": ["Osei, Kofi"], "citation_year": ["1999"]}
    )
    assert json.loads(json.dumps(found.to_json())) == {
        "title": "Zwölf Hecken",
        "authors": [{"name": "Osei, Kofi"}],
        "date": "1999",
    }


def test_a_title_alone_names_no_work() -> None:
    assert not read_biblio({"og:title": ["Home"]}).names_work
    assert read_biblio({"citation_title": ["T"], "citation_doi": ["10.5555/x"]}).names_work


def test_long_values_are_cut_and_many_are_not_all_kept() -> None:
    found = read_biblio(
        {"citation_abstract": ["word " * 5000], "citation_author": [f"Person {n}" for n in range(9000)]}
    )
    assert found.abstract is not None and 4900 < len(found.abstract) <= 5000
    assert len(found.authors) == 1000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*ARTICLE, "@id", "name", "value", "familyName"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from(["ScholarlyArticle", "Dataset"]))
def test_no_json_stops_it_and_what_comes_out_can_be_stored(value: Any, kind: str) -> None:
    node = {**value, "@type": kind} if isinstance(value, dict) else {"@type": kind, "author": value, "isPartOf": value}
    json.dumps(read_biblio({}, [node]).to_json(), ensure_ascii=False).encode("utf-8")


@given(
    st.dictionaries(
        st.sampled_from([*HIGHWIRE, "dc.identifier", "dc.type"]), st.lists(st.text(max_size=60), max_size=3)
    )
)
def test_no_meta_element_stops_it(metas: dict[str, list[str]]) -> None:
    read_biblio(metas).to_json()


def test_halves_of_surrogate_pairs_are_left_out() -> None:
    found = read_biblio({}, [{"@type": "Article", "name": "A \ud800B", "author": "C \udfffD"}])
    assert (found.title, found.authors) == ("A B", (Author("C D"),))


@pytest.mark.parametrize(
    ("expected", "known", "answer"),
    [
        ("10.1371/journal.pone.0001", "10.1371/journal.pone", None),
        ("10.1007/978-3-030-1", "10.1007/978-3-030-1_5", None),
        ("10.7910/DVN/ABCDE", "10.7910/dvn/abcde/fg", None),
        ("10.5555/x1", "10.5555/x12", False),
        ("10.1002/(SICI)1<1::AID-1>3.0.CO;2-2", "10.1002/(sici)1&lt;1::aid-1&gt;3.0.co;2-2", True),
    ],
)
def test_a_part_and_its_whole_are_no_mismatch(expected: str, known: str, answer: bool | None) -> None:
    page = read_biblio({"citation_doi": [known]})
    assert doi_matches(expected, page) is answer


def test_a_preprints_page_may_give_the_doi_of_the_published_paper() -> None:
    page = Biblio(doi="10.1103/physrevd.1.1", arxiv_id="2101.00001v2")
    assert doi_matches("10.48550/arXiv.2101.00001", page) is True
    assert doi_matches("10.48550/arXiv.2101.00002", page) is False
