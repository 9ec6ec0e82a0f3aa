"""TEI as GROBID writes it, and the files from which it learns: title, authors and the number of references."""

from __future__ import annotations

import pathlib

import pytest

from datasette_ingest.ingest.documents.tei import read_tei

MOST = 12_000_000


@pytest.mark.parametrize(
    ("name", "title", "authors", "references"),
    [
        (
            "10.1186_s13287-018-0774-8.training.header",
            "Mesenchymal stem cell-derived extracellular vesicles attenuate influenza virus-induced acute lung injury in a"
            " pig model",
            ["Mahesh Khatri", "Levi Arthur Richardson", "Tea Meulia"],
            0,
        ),
        ("1708.00594.training.references", None, [], 49),
        ("26-1708.04062.training.references", None, [], 33),
        ("44-1705.04100.training.references", None, [], 22),
        ("test6.training.fulltext", None, [], 0),
    ],
)
def test_title_authors_and_references_of_real_files(
    fixtures: pathlib.Path, name: str, title: str | None, authors: list[str], references: int
) -> None:
    read = read_tei((fixtures / "tei" / f"{name}.tei.xml").read_bytes(), MOST)
    assert read.problem is None
    assert read.metadata.get("title") == title
    assert [author["name"] for author in read.metadata.get("authors", [])] == authors
    assert read.metadata["references"] == references


def header(inside: str) -> bytes:
    return (
        '<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><fileDesc><titleStmt><title>T</title></titleStmt><sourceDesc>'
        f"<biblStruct>{inside}</biblStruct></sourceDesc></fileDesc></teiHeader><text/></TEI>"
    ).encode()


def test_two_authors_of_one_name_keep_their_own_places() -> None:
    person = "<author><persName><forename>Li</forename><surname>Wei</surname></persName>{}</author>"
    places = ["<affiliation><orgName>A</orgName></affiliation>", "", "<affiliation>B\n C</affiliation>"]
    read = read_tei(header(f"<analytic>{''.join(map(person.format, places))}</analytic>"), MOST)
    assert [author.get("affiliations") for author in read.metadata["authors"]] == [["A"], None, ["B C"]]


@pytest.mark.parametrize(
    ("idno", "release"),
    [
        ('<idno type="fatcat">release_hsmo6p4smrganpb3fndaj2lon4</idno>', "hsmo6p4smrganpb3fndaj2lon4"),
        ('<idno type="FATCAT"> hsmo6p4smrganpb3fndaj2lon4 </idno>', "hsmo6p4smrganpb3fndaj2lon4"),
        ('<idno type="fatcat">work_hsmo6p4smrganpb3fndaj2lon4</idno>', None),
        ('<idno type="fatcat">short</idno>', None),
        ('<idno type="DOI">hsmo6p4smrganpb3fndaj2lon4</idno>', None),
    ],
)
def test_the_fatcat_release_is_that_of_the_work_itself(idno: str, release: str | None) -> None:
    assert read_tei(header(idno), MOST).fatcat_release == release
    cited = header("").replace(
        b"<text/>", f"<text><listBibl><biblStruct>{idno}</biblStruct></listBibl></text>".encode()
    )
    assert read_tei(cited, MOST).fatcat_release is None
