"""XML documents of many kinds: what each is, the work that it holds, its text, and the same tree in UTF-8."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from datasette_ingest.ingest.documents.xml_reading import XmlRead, dialect_of, read_xml
from datasette_ingest.ingest.types.xml import well_formed

# name: (dialect, title, first author, number of authors, doi, date, references, a sentence of the text)
JATS: dict[str, tuple[str, str, str, int, str, str, int, str]] = {
    "0034-8910-rsp-48-2-0258.xml": (
        "jats",
        "Atividade física de mulheres no climatério: comparação entre auto-relato e pedômetro",
        "Verônica Colpani",
        9,
        "10.1590/s0034-8910.2014048004765",
        "2014-04",
        22,
        "Existem diferentes instrumentos disponíveis para avaliar a AF e o gasto energético.",
    ),
    "1471-2180-11-174.nxml": (
        "jats",
        "Factors influencing lysis time stochasticity in bacteriophage λ",
        "John J Dennehy",
        2,
        "10.1186/1471-2180-11-174",
        "2011-08-02",
        64,
        "Some phenotypic variation arises from randomness in cellular processes despite identical environments and "
        "genotypes [1-9].",
    ),
    "1472-6831-8-11.nxml": (
        "jats",
        "The Dutch version of the Oral Health Impact Profile (OHIP-NL): Translation, reliability and construct validity",
        "Marylee J van der Meulen",
        4,
        "10.1186/1472-6831-8-11",
        "2008-04-11",
        31,
        "In order to study the role of such factors in dentistry, Reisine et al. [2] examined dental patients with the "
        "use of a general health-related quality of life measure, the Sickness Impact Profile.",
    ),
    "1519-6984-bjb-83-e246904.xml": (
        "scielo",
        "Range of factors in the reduction of hyperhydricity associated with in vitro shoots of Salvia santolinifolia Bioss",
        "T. Jan",
        12,
        "10.1590/1519-6984.246904",
        "2021-10-22",
        37,
        "Phillips and Matthews (1964) reported it for the first time in carnation shoot tip culture.",
    ),
    "2176-4573-bak-p59099.xml": (
        "scielo",
        "Análise dialógica dos discursos de réus do crime de feminicídio no Tribunal do Júri",
        "Adriana Delmira Mendes Polato",
        3,
        "10.1590/2176-4573p59099",
        "2023-04-17",
        34,
        "Em se tratando de violência contra a mulher, o país só perde para El Salvador, Colômbia, Guatemala e Rússia.",
    ),
    "2176-4573-bak-p59384.xml": (
        "scielo",
        "HIRSCHKOP, Ken. The Cambridge Introduction to Mikhail Bakhtin",
        "Filipe Almeida Gomes",
        1,
        "10.1590/2176-4573p59384",
        "2023-04-17",
        9,
        "Mikhail Bakhtin levou uma vida extraordinária: extraordinária em sua dificuldade e extraordinária em suas "
        "realizações.",
    ),
    "GZYfdY6BDfMGKwrXQYxsZFd.xml": (
        "scielo",
        "ELMO helmet for CPAP to treat COVID-19-related acute hypoxemic respiratory failure outside the ICU: aspects "
        "of/comments on its assembly and methodology",
        "Mariano Mazza",
        3,
        "10.36416/1806-3756/e20220072",
        "2022-05-13",
        3,
        "We thank the authors for their comments and questions regarding our study entitled",
    ),
    "elife00007.xml": (
        "jats",
        "Herbivory-induced volatiles function as defenses increasing fitness of the native plant Nicotiana attenuata in "
        "nature",
        "Meredith C Schuman",
        3,
        "10.7554/elife.00007",
        "2012-10-15",
        62,
        "Plant indirect defenses are traits that disable or remove herbivores by manipulating tri-trophic interactions to "
        "the advantage of the plant (Price et al., 1980).",
    ),
    "elife00013.xml": (
        "jats",
        "A bacterial sulfonolipid triggers multicellular development in the closest living relatives of animals",
        "Rosanna A Alegado",
        8,
        "10.7554/elife.00013",
        "2012-10-15",
        105,
        "Eukaryotes evolved in a world filled with bacteria and throughout their shared history these two branches of "
        "life have developed a complex set of ways to compete and cooperate with each other.",
    ),
    "elife00270.xml": (
        "jats",
        "Launching eLife, Part 1",
        "Randy Schekman",
        4,
        "10.7554/elife.00270",
        "2012-10-15",
        0,
        "The eLife initiative is an unprecedented collaboration between the funders and practitioners of life and "
        "biomedical science, aiming to catalyse fundamental change in research communication.",
    ),
    "elife00351.xml": (
        "jats",
        "Bad medicine",
        "Richard Smith",
        1,
        "10.7554/elife.00351",
        "2012-12-13",
        7,
        "Ben Goldacre, a youngish medical doctor, made his name with a column called Bad Science in the Guardian, "
        "Britain's left leaning newspaper.",
    ),
    "elife06003.xml": (
        "jats",
        "No turnover in lens lipids for the entire human lifespan",
        "Jessica R Hughes",
        6,
        "10.7554/elife.06003",
        "2015-03-11",
        32,
        "and weeks in response to exercise (Mitchell et al., 2004).",
    ),
    "elife07586.xml": (
        "jats",
        "Correction: Mucosal effects for tenofovir 1% gel",
        "Florian Hladik",
        20,
        "10.7554/elife.07586",
        "2015-03-24",
        0,
        "During the production process the CONSORT checklist and CONSORT flow chart were not attached to the article and "
        "thus were omitted from the published version.",
    ),
}
WITHOUT_A_WORK = {
    "catalog-jats-v1-1-with-base.xml": "other",
    "simple-jats-doctype-1.1.xml": "jats",
    "xmlio_input.xml": "jats",
}

# name: (facts, a sentence of the text)
TEI: dict[str, tuple[dict[str, Any], str]] = {
    "10.1186_s13287-018-0774-8.training.header.tei.xml": (
        {
            "title": "Mesenchymal stem cell-derived extracellular vesicles attenuate influenza virus-induced acute lung "
            "injury in a pig model",
            "authors": [{"name": "Mahesh Khatri"}, {"name": "Levi Arthur Richardson"}, {"name": "Tea Meulia"}],
            "language": "en",
        },
        "Methods: We isolated EVs from swine bone marrow-derived MSCs. Morphology of MSC-EVs was determined by electron "
        "microscopy",
    ),
    "1708.00594.training.references.tei.xml": ({"references": 49}, ""),
    "26-1708.04062.training.references.tei.xml": ({"references": 33}, ""),
    "44-1705.04100.training.references.tei.xml": ({"references": 22}, ""),
    "test6.training.fulltext.tei.xml": (
        {"language": "en"},
        "One such critical kinase is the maternal embryonic leucine zipper kinase (MELK).",
    ),
}

# name: (encoding, a part of the text)
EDGES = {
    "ebcdic_566012.xml": ("ibm1141", ""),
    "iso-8859-5.xml": ("iso-8859-5", "АБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯ"),
    "slashdot16.xml": ("utf-16le", "Sony's AIBO robot Sold Out"),
    "text-4-byte-UTF-16-BE-offset.xml": ("utf-16be", "🥓" * 1000),
    "text-4-byte-UTF-16-BE.xml": ("utf-16be", "🥓" * 1000),
    "text-4-byte-UTF-16-LE-offset.xml": ("utf-16le", "🥓" * 1000),
    "text-4-byte-UTF-16-LE.xml": ("utf-16le", "🥓" * 1000),
    "utf16bebom.xml": ("utf-16be", ""),
    "utf16bom.xml": ("utf-16le", ""),
    "utf16lebom.xml": ("utf-16le", ""),
    "utf8bom.xml": ("utf-8", ""),
}


def c14n(document: bytes) -> bytes:
    """The canonical form, as a parser writes it that reads the document as it is; IDs need be no names."""
    parser = etree.XMLParser(resolve_entities="internal", recover=True, no_network=True)
    return etree.tostring(etree.fromstring(document, parser).getroottree(), method="c14n")


def test_every_file_of_the_three_kinds_has_its_answer_here(fixtures: pathlib.Path) -> None:
    assert {path.name for path in (fixtures / "jats").iterdir()} == {*JATS, *WITHOUT_A_WORK}
    assert {path.name for path in (fixtures / "tei").iterdir()} == set(TEI)
    assert {path.name for path in (fixtures / "xml-edge").iterdir()} == set(EDGES)


@pytest.mark.parametrize("name", JATS)
def test_an_article_in_jats_says_who_wrote_it_what_it_is_called_and_what_it_says(
    fixtures: pathlib.Path, name: str
) -> None:
    dialect, title, author, authors, doi, date, references, sentence = JATS[name]
    read = read_xml((fixtures / "jats" / name).read_bytes())
    assert (read.status, read.dialect, read.encoding) == ("success", dialect, "utf-8")
    assert read.biblio["title"] == title
    assert (read.biblio["authors"][0]["name"], len(read.biblio["authors"])) == (author, authors)
    assert (read.biblio["doi"], read.biblio["date"], read.biblio.get("references", 0)) == (doi, date, references)
    assert any(sentence in paragraph for paragraph in read.text.split("\n\n"))
    assert title in read.text and author in read.text


@pytest.mark.parametrize(("name", "dialect"), WITHOUT_A_WORK.items())
def test_a_document_without_a_work_has_no_facts_of_one(fixtures: pathlib.Path, name: str, dialect: str) -> None:
    read = read_xml((fixtures / "jats" / name).read_bytes())
    assert (read.status, read.dialect, read.biblio, read.word_count) == ("success", dialect, {}, 0)


@pytest.mark.parametrize("name", TEI)
def test_tei_is_read_in_its_namespace_and_without(fixtures: pathlib.Path, name: str) -> None:
    facts, sentence = TEI[name]
    read = read_xml((fixtures / "tei" / name).read_bytes())
    assert (read.status, read.dialect) == ("success", "tei")
    assert {key: value for key, value in read.biblio.items() if key != "abstract"} == facts
    assert any(sentence in paragraph for paragraph in read.text.split("\n\n"))


@pytest.mark.parametrize("name", EDGES)
def test_what_is_no_article_is_read_in_its_own_encoding(fixtures: pathlib.Path, name: str) -> None:
    encoding, part = EDGES[name]
    read = read_xml((fixtures / "xml-edge" / name).read_bytes())
    assert (read.status, read.dialect, read.encoding, read.biblio) == ("success", "other", encoding, {})
    assert part in read.text


@pytest.mark.parametrize(
    "name", [*(f"jats/{name}" for name in (*JATS, *WITHOUT_A_WORK)), *(f"tei/{name}" for name in TEI)]
)
def test_the_document_in_utf_8_has_the_same_tree_and_no_document_type(fixtures: pathlib.Path, name: str) -> None:
    document = (fixtures / name).read_bytes()
    utf8 = read_xml(document).utf8
    assert utf8 is not None and utf8.startswith(b"<?xml version='1.0' encoding='UTF-8'?>\n")
    assert b"<!DOCTYPE" not in utf8
    assert c14n(utf8) == c14n(document)


@pytest.mark.parametrize("name", [name for name in EDGES if not name.startswith("ebcdic")])
def test_so_has_one_that_was_in_another_encoding(fixtures: pathlib.Path, name: str) -> None:
    document = (fixtures / "xml-edge" / name).read_bytes()
    assert c14n(read_xml(document).utf8 or b"") == c14n(document)


def test_a_document_in_ebcdic_is_read_by_the_code_page_that_it_declares(fixtures: pathlib.Path) -> None:
    read = read_xml((fixtures / "xml-edge" / "ebcdic_566012.xml").read_bytes())
    assert read.utf8 == "<?xml version='1.0' encoding='UTF-8'?>\n<test attr=\"ÄÖÜ\"/>".encode()


# Dialects

JATS_ROOTS = {
    '<article article-type="letter"/>': "jats",
    "<article><front/></article>": "jats",
    '<article xmlns="https://jats.nlm.nih.gov/ns/archiving/1.3/"/>': "jats",
    '<j:article xmlns:j="http://dtd.nlm.nih.gov/2.0/xsd/archivearticle"/>': "jats",
    '<!DOCTYPE article PUBLIC "-//NLM//DTD JATS (Z39.96) Journal Publishing DTD v1.0 20120330//EN" "j.dtd"><article/>': "jats",
    '<pmc-articleset><article article-type="letter"/></pmc-articleset>': "jats",
    '<article article-type="letter" specific-use="sps-1.9"/>': "scielo",
    '<TEI xmlns="http://www.tei-c.org/ns/1.0"/>': "tei",
    '<t:TEI xmlns:t="http://www.tei-c.org/ns/1.0"/>': "tei",
    "<TEI.2/>": "tei",
    '<TEI xmlns="http://example.org/other"/>': "other",
    '<article xmlns="http://docbook.org/ns/docbook"><info/></article>': "other",
    '<!DOCTYPE article PUBLIC "-//OASIS//DTD DocBook XML V4.5//EN" "d.dtd"><article article-type="x"><front/></article>': "other",
    "<article><title>No journal's</title></article>": "other",
    '<art><fm/><bdy>an article-type="x" of <!-- <article article-type="y"> -->JATS</bdy></art>': "other",
    "<root><article><front/></article><TEI/></root>": "other",
}


@pytest.mark.parametrize(("document", "dialect"), JATS_ROOTS.items())
def test_the_dialect_is_that_of_the_root_element(document: str, dialect: str) -> None:
    assert dialect_of(etree.fromstring(document).getroottree()) == dialect
    assert read_xml(document.encode()).dialect == dialect


def test_an_article_in_a_namespace_is_read_as_one_without() -> None:
    document = """<j:article xmlns:j="https://jats.nlm.nih.gov/ns/archiving/1.3/"><j:front><j:article-meta><j:title-group>
      <j:article-title>Salt</j:article-title></j:title-group></j:article-meta></j:front>
      <j:body><j:p>It is <j:bold>sal</j:bold>ty.</j:p></j:body></j:article>"""
    read = read_xml(document.encode())
    assert (read.biblio, read.text) == ({"title": "Salt"}, "Salt\n\nIt is salty.")


def test_of_a_set_of_several_works_all_text_is_kept_and_no_facts() -> None:
    one = '<article article-type="x"><front><article-meta><title-group><article-title>{}</article-title></title-group></article-meta></front></article>'
    alone = read_xml(f"<pmc-articleset>{one.format('First')}</pmc-articleset>".encode())
    both = read_xml(f"<pmc-articleset>{one.format('First')}{one.format('Second')}</pmc-articleset>".encode())
    assert (alone.biblio, alone.text) == ({"title": "First"}, "First")
    assert (both.biblio, both.text) == ({}, "First\n\nSecond")


def test_the_vocabulary_of_biomed_central_is_another_dialect_with_facts(fixtures: pathlib.Path) -> None:
    read = read_xml((fixtures / "articles" / "bmc.xml").read_bytes())
    assert (read.status, read.dialect) == ("success", "other")
    assert read.biblio["title"] == (
        "Yellow lupin (Lupinus luteus L.) transcriptome sequencing: molecular marker development and comparative studies"
    )
    assert read.biblio["authors"][0] == {"name": "Lorena B Parra-González"} and len(read.biblio["authors"]) == 8
    assert read.biblio["doi"] == "10.1186/1471-2164-13-425"
    assert (
        "Yellow lupin (Lupinus luteus L.) is a minor legume crop characterized by its high seed protein content."
        in read.text
    )


def test_metadata_in_dublin_core_and_prism_are_facts_if_they_are_of_one_work() -> None:
    work = """<a xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:prism="http://prismstandard.org/namespaces/basic/2.0/">
      <dc:title>Salt</dc:title><dc:creator>Ada Lovelace</dc:creator><prism:doi>10.1234/X</prism:doi></a>"""
    assert read_xml(work.encode()).biblio == {
        "title": "Salt",
        "authors": [{"name": "Ada Lovelace"}],
        "doi": "10.1234/x",
    }
    two = work.replace("<dc:title>", "<dc:title>Water</dc:title><dc:title>")
    assert read_xml(two.encode()).biblio == {}


def test_the_tei_that_grobid_writes_gives_the_facts_of_its_header() -> None:
    document = """<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><fileDesc>
      <titleStmt><title level="a" type="main">Salt</title></titleStmt>
      <publicationStmt><publisher>Sea Press</publisher><availability><licence
        target="https://creativecommons.org/licenses/by/4.0/"/></availability><date when="2019-05-02"/></publicationStmt>
      <sourceDesc><biblStruct><analytic><author><persName><forename type="first">Ada</forename><surname>Lovelace</surname>
        </persName><email>ada@example.org</email><idno type="ORCID">0000-0002-1825-0097</idno>
        <affiliation>Sea</affiliation></author><title level="a">Salt</title></analytic>
        <monogr><title level="j">Water</title><idno type="eISSN">1518-8787</idno><imprint><biblScope unit="volume">7</biblScope>
        <biblScope unit="issue">2</biblScope><biblScope unit="page" from="3" to="9"/><date type="published" when="2019"/>
        </imprint></monogr><idno type="DOI">10.1234/Salt</idno></biblStruct></sourceDesc></fileDesc>
      <profileDesc><abstract><p>Sea water is salty.</p></abstract></profileDesc></teiHeader>
      <text xml:lang="en"><body><div><head>Taste</head><p>It is salty <ref type="bibr">[1]</ref>.</p></div></body>
      <back><listBibl><biblStruct><monogr><title>Brine</title></monogr></biblStruct></listBibl></back></text></TEI>"""
    read = read_xml(document.encode())
    assert read.biblio == {
        "title": "Salt",
        "authors": [{"name": "Ada Lovelace", "orcid": "0000-0002-1825-0097"}],
        "doi": "10.1234/salt",
        "journal": "Water",
        "publisher": "Sea Press",
        "issn": ["1518-8787"],
        "volume": "7",
        "issue": "2",
        "first_page": "3",
        "last_page": "9",
        "date": "2019",
        "licence": "https://creativecommons.org/licenses/by/4.0/",
        "language": "en",
        "abstract": "Sea water is salty.",
        "references": 1,
    }
    assert read.text == "Salt\n\nSea water is salty.\n\nTaste\n\nIt is salty [1]."


# What a document may hold


def test_entities_become_their_text_and_the_document_type_goes() -> None:
    document = b'<!DOCTYPE r [<!ENTITY who "A<b>d</b>a"><!ENTITY none "">]><r q="&none;1">&who; &amp; co</r>'
    read = read_xml(document)
    assert read.utf8 is not None and c14n(read.utf8) == c14n(document) == b'<r q="1">A<b>d</b>a &amp; co</r>'
    assert read.text == "Ada & co"


def test_entities_of_a_named_document_type_are_the_characters_that_everybody_means() -> None:
    document = """<!DOCTYPE article PUBLIC "-//NLM//DTD JATS (Z39.96) Journal Publishing DTD v1.0//EN" "j.dtd">
      <article article-type="x" id="&Ouml;&alpha;"><body><p>&lt;&alpha;&nbsp;&ndash; &unheard;<![CDATA[&beta;]]></p></body></article>"""
    read = read_xml(document.encode())
    assert (read.status, read.text) == ("success", "<α – &unheard;&beta;")
    assert read.utf8 is not None and etree.fromstring(read.utf8).get("id") == "Öα"


@pytest.mark.parametrize("subset", ["", "[]", '[<!ENTITY own "mine">]', "[<!-- ]> --><!ELEMENT a ANY>]"])
def test_declarations_are_added_to_any_form_of_a_document_type(subset: str) -> None:
    document = f'<?x y?><!-- <!DOCTYPE q> --><!DOCTYPE a SYSTEM "a.dtd"{subset}><a>&eacute;{"&own;" if "own" in subset else ""}</a>'
    assert read_xml(document.encode()).text == ("émine" if "own" in subset else "é")


@pytest.mark.parametrize("target", ["file:///etc/hostname", "http://127.0.0.1:9/x"])
def test_a_reference_to_another_file_stays_a_reference(target: str) -> None:
    document = f'<!DOCTYPE a [<!ENTITY x SYSTEM "{target}">]><a>Before &x; after</a>'
    read = read_xml(document.encode())
    assert (read.status, read.text) == ("success", "Before &x; after")
    assert read.utf8 == b"<?xml version='1.0' encoding='UTF-8'?>\n<a>Before &amp;x; after</a>"


@pytest.mark.parametrize("target", ["file:///etc/hostname", "http://127.0.0.1:9/x"])
def test_declarations_in_another_file_are_not_read(target: str) -> None:
    """Versions of libxml2 differ in whether they say that something is missing then."""
    document = f'<!DOCTYPE a [<!ENTITY x SYSTEM "{target}"><!ENTITY % p SYSTEM "{target}"> %p;]><a>Before &x; after</a>'
    read = read_xml(document.encode())
    assert (read.status, read.text) in [("success", "Before &x; after"), ("bad-entities", "Before after")]


def test_a_bomb_is_not_unfolded() -> None:
    levels = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    read = read_xml(f'<!DOCTYPE a [<!ENTITY l0 "ha">{levels}]><a>Not a laugh: &l9;</a>'.encode())
    assert read.status in ("bad-entities", "parse-error") and read.utf8 is None and len(read.text) < 100


def test_more_entities_than_anybody_uses_are_not_looked_up() -> None:
    references = "".join(f"&e{number};" for number in range(10_001))
    read = read_xml(f'<!DOCTYPE a SYSTEM "a.dtd"><a>Salt {references}</a>'.encode())
    assert (read.status, read.text, read.utf8) == ("bad-entities", "Salt", None)


def test_a_prefix_without_a_namespace_leaves_the_text_and_no_copy() -> None:
    read = read_xml(b'<article article-type="x"><body><p xlink:href="y">Salt.</p></body></article>')
    assert (read.status, read.dialect, read.text, read.utf8) == ("bad-namespaces", "jats", "Salt.", None)


@pytest.mark.parametrize("document", [b"", b"<a>", b"<a/><b/>", b"no XML", b"<a>\xff</a>", b"\x4c\x6f\xa7\x94"])
def test_what_does_not_parse_is_said_to_be_so(document: bytes) -> None:
    assert read_xml(document) == XmlRead("parse-error", encoding=read_xml(document).encoding)


def test_the_deepest_document_that_parses_is_read() -> None:
    deepest = next(depth for depth in range(300, 0, -1) if read_xml(nested(depth)).status == "success")
    assert read_xml(nested(deepest)).text.split("\n\n") == ["x"] * deepest
    assert deepest > 200
    assert read_xml(nested(2_000)).status == read_xml(nested(100_000)).status == "parse-error"


def nested(depth: int) -> bytes:
    return b'<article article-type="a"><body>' + b"<fn>x" * depth + b"</fn>" * depth + b"</body></article>"


# Text


def text_of(body: str) -> str:
    return read_xml(
        f'<article article-type="x" xmlns:m="http://www.w3.org/1998/Math/MathML"><body>{body}</body></article>'.encode()
    ).text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<p>one</p><p>two</p>", "one\n\ntwo"),
        ("<sec><label>1.</label><title>Aims</title><p>To see.</p></sec>", "1. Aims\n\nTo see."),
        ("<p>a<break/>b<!-- not --> c<?pi x?> d</p>", "a b c d"),
        ("<p>cells<sup><xref>1,2</xref></sup> grow; H<sub>2</sub>O</p>", "cells 1,2 grow; H2O"),
        ("<p>Text<fn><p>A note.</p></fn> goes on.</p><p>Next</p>", "Text goes on.\n\nA note.\n\nNext"),
        (
            "<p>Before <list><list-item><p>i</p></list-item><list-item><p>ii</p></list-item></list> after</p>",
            "Before\n\ni\n\nii\n\nafter",
        ),
        (
            "<table-wrap><label>Table 1</label><caption><p>Sizes</p></caption><table><tr><th>a</th><th/><th>c</th></tr>"
            "<tr><td><p>1</p><p>2</p></td><td>3</td></tr></table></table-wrap><p>End</p>",
            "Table 1 Sizes\n\na\t\tc\n1 2\t3\n\nEnd",
        ),
        (
            "<p>so <disp-formula><m:math><m:mi>E</m:mi><m:mo>=</m:mo><m:mi>m</m:mi><m:annotation>tex</m:annotation></m:math>"
            "</disp-formula>.</p>",
            "so E = m .",
        ),
        ("<p><alternatives><tex-math>x</tex-math><m:math><m:mi>y</m:mi></m:math></alternatives></p>", "y"),
        (r"<p>so <tex-math>\documentclass{a}\begin{document}$x$\end{document}</tex-math></p>", "so $x$"),
        (
            "<p>kept</p><ref-list><title>References</title><ref><mixed-citation>left out</mixed-citation></ref></ref-list>",
            "kept",
        ),
    ],
)
def test_text_is_what_a_reader_would_read(body: str, text: str) -> None:
    assert text_of(body) == text


def test_of_a_vocabulary_that_is_not_known_an_element_is_a_paragraph_unless_text_is_beside_it() -> None:
    document = "<r><a>One <x>two</x> three</a><b><c>four</c><c>five</c></b></r>"
    assert read_xml(document.encode()).text == "One two three\n\nfour\n\nfive"


def test_windows_characters_that_are_called_latin_1_can_be_read_and_the_copy_is_exact() -> None:
    document = b'<?xml version="1.0" encoding="ISO-8859-1"?><r>\x93Salt\x94 caf\xe9</r>'
    read = read_xml(document)
    assert read.text == "“Salt” café"
    assert c14n(read.utf8 or b"") == c14n(document)


def test_passwords_in_facts_are_masked() -> None:
    document = """<article article-type="x" xmlns:xlink="http://www.w3.org/1999/xlink"><front><article-meta><permissions>
      <license xlink:href="https://u:secret@example.org/license"/></permissions></article-meta></front></article>"""
    assert read_xml(document.encode()).biblio == {"licence": "https://***@example.org/license"}


# Encodings

LETTERS = {
    "utf-8": "aé€漢🥓",
    "utf-16": "aé€漢🥓",
    "utf-16-le": "aé€漢🥓",
    "utf-16-be": "aé€漢🥓",
    "utf-32-le": "aé€漢🥓",
    "utf-32-be": "aé€漢🥓",
    "iso-8859-1": "aéüß",
    "iso-8859-2": "ałőž",
    "iso-8859-15": "aé€",
    "windows-1252": "aé€“",
    "windows-1251": "aжя",
    "koi8-r": "aжя",
    "gbk": "a漢字。",
    "gb2312": "a汉字",
    "gb18030": "aé€漢🥓",
    "big5": "a漢字",
    "shift_jis": "aカ漢字\\ソ",
    "euc-jp": "aカ漢字",
    "iso-2022-jp": "aカ漢字",
    "euc-kr": "a한글",
    "us-ascii": "ab",
}


@given(st.data(), st.sampled_from(sorted(LETTERS)))
def test_text_comes_back_in_whatever_encoding_a_document_was_written_and_says_so(data: Any, encoding: str) -> None:
    text = data.draw(st.text(LETTERS[encoding], min_size=1))
    document = f'<?xml version="1.0" encoding="{encoding}"?><r>{text}</r>'.encode(encoding)
    read = read_xml(document)
    assert (read.status, read.text) == ("success", text)
    assert read.utf8 == f"<?xml version='1.0' encoding='UTF-8'?>\n<r>{text}</r>".encode()
    assert well_formed(lambda: [document[:3], document[3:]], where="here") is None


BOMS = {"utf-8-sig": "utf-8", "utf-16": "utf-16le", "utf-32": "utf-32le"}


@given(
    st.text("aé€漢🥓", min_size=1),
    st.sampled_from(sorted(BOMS)),
    st.sampled_from([*sorted(LETTERS), "nonsense", "ibm037"]),
)
def test_a_byte_order_mark_outweighs_any_declaration(text: str, bom: str, declared: str) -> None:
    document = f'<?xml version="1.0" encoding="{declared}"?><r>{text}</r>'.encode(bom)
    read = read_xml(document, "text/xml; charset=koi8-r")
    assert (read.status, read.encoding, read.text) == ("success", BOMS[bom], text)


@given(
    st.text("aé€漢🥓", min_size=1), st.sampled_from(["utf-16", "UTF-16LE", "ucs-2", "nonsense", "ibm037", "utf-8", ""])
)
def test_a_declaration_that_cannot_be_true_does_not_count(text: str, declared: str) -> None:
    says = f' encoding="{declared}"' if declared else ""
    read = read_xml(f'<?xml version="1.0"{says}?><r>{text}</r>'.encode())
    assert (read.status, read.encoding, read.text) == ("success", "utf-8", text)


@pytest.mark.parametrize(
    ("declared", "header", "written", "read_as"),
    [
        ("", "koi8-r", "koi8-r", "koi8-r"),
        ("", "utf-8", "utf-8", "utf-8"),
        ("", "windows-1251", "utf-8", "windows-1251"),
        ("koi8-r", "utf-8", "koi8-r", "koi8-r"),
        ("koi8-r", "utf-8", "utf-8", "utf-8"),
        ("koi8-r", "windows-1251", "koi8-r", "koi8-r"),
        ("utf-8", "koi8-r", "koi8-r", "koi8-r"),
        ("utf-8", "koi8-r", "utf-8", "utf-8"),
        ("us-ascii", "", "utf-8", "utf-8"),
        ("shift_jis", "", "utf-8", "utf-8"),
    ],
)
def test_the_declaration_the_header_and_the_bytes_are_reconciled(
    declared: str, header: str, written: str, read_as: str
) -> None:
    says = f' encoding="{declared}"' if declared else ""
    document = f'<?xml version="1.0"{says}?><r>жЖЯ жизнь</r>'.encode(written)
    read = read_xml(document, f"text/xml; charset={header}" if header else "text/xml")
    assert (read.status, read.encoding) == ("success", read_as)
    assert read.text == "жЖЯ жизнь" or read_as != written


def test_names_that_mean_more_than_they_say_are_read_so() -> None:
    document = '<?xml version="1.0" encoding="{}"?><r>{}</r>'
    assert read_xml(document.format("gb2312", "镕").encode("gbk")).text == "镕"
    assert read_xml(document.format("shift_jis", "①").encode("cp932")).text == "①"


@pytest.mark.parametrize(
    ("page", "codec"), [("IBM037", "cp037"), ("ebcdic-cp-us", "cp037"), ("IBM-1047", ""), ("CP1140", "cp1140")]
)
def test_code_pages_of_ebcdic(page: str, codec: str) -> None:
    document = f'<?xml version="1.0" encoding="{page}"?>\n<article article-type="x"><p>Salt [1]</p></article>'
    read = read_xml(document.encode(codec or "cp037").replace(b"\x25", b"\x15"))
    assert (read.status, read.dialect) == (("success", "jats") if codec else ("parse-error", None))
