"""What is read of a PDF: facts, text, a picture."""

from __future__ import annotations

import io
import pathlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from datasette_ingest.ingest.documents import pdf_reading
from datasette_ingest.ingest.documents.pdf_read import PdfRead
from datasette_ingest.ingest.documents.pdf_reading import clean_text, iso_date
from datasette_ingest.ingest.documents.pdf_work import read_pdf

from . import pdfs

# What a person sees who opens the file; files that are not named here show their pages.
STATUSES = {
    "20-pages.pdf": "bad-pdf",  # asks for a password, as do three others
    "bad1.pdf": "not-pdf",  # the word `oops`
    "bad35.pdf": "bad-pdf",  # its objects are in a stream of an unknown type
    "bad7.pdf": "bad-pdf",  # its trailer is none
    "c-r5-in.pdf": "bad-pdf",
    "encrypted-40-bit-R3.pdf": "bad-pdf",
    "filter-on-write.pdf": "empty-pdf",
}
ENCRYPTED = {"20-pages.pdf", "c-r5-in.pdf", "encrypted-40-bit-R3.pdf"}
WORDS = {
    "2b.pdf": "interest",
    "good1.pdf": "Potato",
    "bad6.pdf": "Sandwiches",  # an update of the file counts
    "bad11.pdf": "Salad",
    "bad34.pdf": "Potato",  # the table of objects leads past its page
    "encrypted-positive-P.pdf": "Potato",  # opens without a password
    "good18.pdf": "Potato 29",
    "issue-00352-asw-oct96-p41.pdf": "Aviation",
    "issue-1059-cmap-decode.pdf": "7 8 9",
    "AcroForm_TEST.pdf": "CHECKBOX",
    "pages-loop.pdf": "Potato",
}


def read(data: bytes | str, *, with_text: bool = True, with_picture: bool = True) -> PdfRead:
    return read_pdf(data, with_text=with_text, with_picture=with_picture)


def picture_of(found: PdfRead) -> Image.Image:
    assert found.picture is not None
    image = Image.open(io.BytesIO(found.picture.content))
    assert (image.format, image.size) == ("WEBP", (found.picture.width, found.picture.height))
    return image.convert("L")


def test_real_and_broken_files_have_the_status_that_a_person_would_give_them(fixtures: pathlib.Path) -> None:
    found = {path.name: read(str(path)) for path in sorted((fixtures / "pdf").glob("*.pdf"))}
    assert {name: each.status for name, each in found.items() if each.status != "success"} == STATUSES
    assert {name for name in STATUSES if found[name].metadata.get("encrypted")} == ENCRYPTED
    assert {name: word for name, word in WORDS.items() if word not in (found[name].text or "")} == {}
    assert {name for name, each in found.items() if (each.picture is None) != (name in STATUSES)} == set()


def test_an_article_tells_its_title_dates_and_doi(fixtures: pathlib.Path) -> None:
    found = read(str(fixtures / "articles" / "bmc.pdf"))
    assert (found.status, found.page_count, found.version, found.created) == (
        "success",
        15,
        "1.3",
        "2012-09-18T13:54:27Z",
    )
    assert found.metadata["doi"] == "10.1186/1471-2164-13-425"
    assert found.metadata["title"].startswith("Yellow lupin (Lupinus luteus L.) transcriptome sequencing")
    assert found.permanent_id == "d0303be4821e9a8ebe16d23f38e4d8c7"
    assert found.text is not None
    assert "a member of the genistoid clade of the Fabaceae family" in found.text, "a word over two lines is one"
    assert max(picture_of(found).size) == 400


def test_a_file_is_read_by_its_path_as_by_its_bytes(tmp_path: pathlib.Path) -> None:
    data = pdfs.pdf("One page", "and another")
    (tmp_path / "a.pdf").write_bytes(data)
    assert read(str(tmp_path / "a.pdf"), with_picture=False) == read(data, with_picture=False)
    assert read(data).text == "One page\fand another"


def test_a_file_whose_table_of_objects_is_wrong_is_read_without_it() -> None:
    whole = pdfs.pdf("Words")
    entry = b"%010d 00000 n"
    page, other = (entry % whole.index(name) for name in (b"5 0 obj", b"3 0 obj"))
    found = read(whole.replace(page, other), with_picture=False)
    assert (found.status, found.text, found.metadata) == ("success", "Words", {"repaired": True})
    gone = whole.replace(b"/Type /Page ", b"/Type /Nope ").replace(b"/Kids [5 0 R]", b"/Kids [9 0 R]")
    assert read(gone, with_picture=False).status == "empty-page0"


def test_only_what_is_asked_for_is_read() -> None:
    data = pdfs.pdf("Words", info={"Title": "A title"})
    bare = read(data, with_text=False, with_picture=False)
    assert (bare.text, bare.picture, bare.page_count, bare.metadata) == (None, None, 1, {"title": "A title"})
    assert read(data, with_text=False).picture is not None


@pytest.mark.parametrize(
    ("info", "doi"),
    [
        ({"doi": "10.1000/ABC"}, "10.1000/abc"),
        ({"WPS-ARTICLEDOI": "doi:10.1000/b"}, "10.1000/b"),
        ({"Subject": "J. Things, 12 (2020) 1-9. doi:10.1016/j.x.2020.01.002"}, "10.1016/j.x.2020.01.002"),
        ({"Title": "doi:10.1016/S0140-6736(97)11096-0"}, "10.1016/s0140-6736(97)11096-0"),
        ({"Subject": "see https://doi.org/10.1000/c."}, "10.1000/c"),
        ({"Subject": "Section 10.1000/x of the report"}, None),
        ({"Title": "No identifier"}, None),
    ],
)
def test_the_doi_is_found_where_publishers_write_it(info: dict[str, str], doi: str | None) -> None:
    assert read(pdfs.pdf("x", info=info), with_picture=False).metadata.get("doi") == doi


@pytest.mark.parametrize(
    "packet",
    [
        b"<prism:doi>10.1000/x</prism:doi>",
        b"<pdfx:doi>10.1000/x</pdfx:doi>",
        b"<dc:identifier>doi:10.1000/X</dc:identifier>",
        b'<rdf:Description prism:doi="10.1000/x"/>',
    ],
)
def test_the_doi_of_an_xmp_packet_is_found(packet: bytes) -> None:
    packet = b"<x:xmpmeta><rdf:RDF>%s</rdf:RDF></x:xmpmeta>" % packet
    more = b"<< /Type /Metadata /Subtype /XML /Length %d >>\nstream\n%s\nendstream" % (len(packet), packet)
    assert read(pdfs.pdf("x", more=[more]), with_picture=False).metadata["doi"] == "10.1000/x"


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("D:20120918215427+08'00'", "2012-09-18T13:54:27Z"),
        ("D:20120918215427+08'00", "2012-09-18T13:54:27Z"),
        ("D:20120918215427Z00'00'", "2012-09-18T21:54:27Z"),
        ("20120918215427-0530", "2012-09-19T03:24:27Z"),
        ("D:20120918215427", "2012-09-18T21:54:27"),
        ("D:201209182154", "2012-09-18T21:54:00"),
        ("D:20120918", "2012-09-18"),
        ("D:2012", "2012"),
        ("2012-09-18T21:54:27+02:00", "2012-09-18T19:54:27Z"),
        ("D:20121318", None),
        ("D:20120918990000", None),
        ("D:00000000000000Z", None),
        ("Tue Sep 18 2012", None),
        ("", None),
    ],
)
def test_dates_are_iso_8601_as_exact_as_they_were(text: str, date: str | None) -> None:
    assert iso_date(text) == date


@given(st.text(max_size=40) | st.from_regex(r"D:[0-9]{0,16}[-+Z]?[0-9']{0,6}", fullmatch=True))
def test_no_date_is_an_error(text: str) -> None:
    found = iso_date(text)
    assert found is None or found[:4].isdigit()


def test_a_date_that_is_none_is_kept_as_it_stands() -> None:
    found = read(pdfs.pdf("x", info={"CreationDate": "last Tuesday", "ModDate": "D:2020"}), with_picture=False)
    assert (found.created, found.metadata) == (None, {"created": "last Tuesday", "modified": "2020"})


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("detec\x02tion", "detection"),
        ("detec\ufffe\r\ntion", "detection"),
        ("co\xadoperate", "cooperate"),
        ("Smith\x02Jones", "Smith-Jones"),
        ("2012\x022013", "2012-2013"),
        ("Copyright: \x02 2012", "Copyright:  2012"),
        ("end\x02\r\n", "end\n"),
        ("a\x00b\x1fc\td\r\ne\rf", "abc\td\ne\nf"),
    ],
)
def test_divided_words_are_joined_and_control_characters_left_out(text: str, cleaned: str) -> None:
    assert clean_text(text) == cleaned


def test_a_lone_surrogate_is_replaced_and_told() -> None:
    title, lone = "a#b".encode("utf-16"), "a\ud800b".encode("utf-16", "surrogatepass")
    found = read(
        pdfs.pdf("x", info={"Title": "a#b"}).replace(title.hex().encode(), lone.hex().encode()), with_picture=False
    )
    assert (found.status, found.metadata["title"]) == ("bad-unicode", "a\ufffdb")


@pytest.mark.parametrize(
    ("page", "size", "picture"),
    [
        (b"/MediaBox [0 0 612 792] /Rotate 90", (792, 612), (400, 310)),
        (b"/MediaBox [0 0 612 792] /CropBox [100 100 300 200]", (200, 100), (400, 200)),
        (b"/MediaBox [0 0 14400 14400]", (14400, 14400), (400, 400)),
        (b"/MediaBox [0 0 1000000000 10]", (1e9, 10), (400, 1)),
        (b"/MediaBox [0 0 0 0]", (612, 792), (310, 400)),
        (b"/MediaBox [0 0 20 10]", (20, 10), (400, 200)),
        (b"", (612, 792), (310, 400)),
    ],
)
def test_a_page_is_as_a_reader_shows_it(page: bytes, size: tuple[float, float], picture: tuple[int, int]) -> None:
    found = read(pdfs.pdf("Words", page=page))
    assert (found.status, (found.page0_width, found.page0_height)) == ("success", size)
    assert picture_of(found).size == picture


def test_a_picture_shows_the_page() -> None:
    low, high = picture_of(read(pdfs.pdf(b"0 0 612 396 re f"))).crop((10, 210, 300, 390)).getextrema()
    assert (low, high) == (0, 0), "the lower half is black"
    assert picture_of(read(pdfs.pdf(""))).getextrema() == (255, 255)


def test_a_text_over_the_limit_is_cut_and_says_so(monkeypatch: Any) -> None:
    monkeypatch.setattr(pdf_reading, "MOST_CHARS", 12)
    found = read(pdfs.pdf("1234567890", "1234567890", "never read"), with_picture=False)
    assert (found.status, found.text) == ("text-too-large", "1234567890\f1")
    assert found.metadata == {"text_cut": 12, "text_pages": 2}


def test_pages_over_the_limit_are_not_read_and_what_was_is_kept(monkeypatch: Any) -> None:
    data = pdfs.pdf("One", "Two", "Three")
    monkeypatch.setattr(pdf_reading, "MOST_PAGES", 2)
    found = read(data, with_picture=False)
    assert (found.status, found.text, found.metadata) == (
        "text-too-large",
        "One\fTwo",
        {"text_cut": 7, "text_pages": 2},
    )
    monkeypatch.setattr(pdf_reading, "TEXT_SECONDS", -1.0)
    assert read(data, with_picture=False).status == "error-timeout"


def test_the_text_of_other_pages_is_kept_where_one_is_missing() -> None:
    gone = pdfs.pdf("One", "Two", "Three").replace(b"7 0 obj\n<< /Type /Page ", b"7 0 obj\n<< /Type /Pagx ")
    found = read(gone, with_picture=False)
    assert found.page_count == 3
    assert found.text is not None
    assert found.text.startswith("One\f")
    assert found.text.endswith("\fThree")


@given(st.binary(max_size=300), st.integers(0, 900), st.integers(0, 300))
def test_a_damaged_file_has_a_status(noise: bytes, at: int, gone: int) -> None:
    """Whatever is done to its bytes."""
    whole = pdfs.pdf("Words", info={"Title": "T"})
    found = read(whole[:at] + noise + whole[at + gone :], with_picture=False)
    assert found.status in {"success", "not-pdf", "bad-pdf", "empty-pdf", "empty-page0", "parse-error", "bad-unicode"}
    assert "\0" not in (found.text or "")
