"""What bytes are, whatever they are called."""

from __future__ import annotations

import hashlib
import io
import pathlib
import re
import zipfile

import pytest

from datasette_ingest.ingest import files
from datasette_ingest.ingest.files import EXTENSIONS, HEAD_BYTES, TAIL_BYTES, UNKNOWN, digest, has_pdf_end, sniff

from .origin import PDF


def kind(data: bytes) -> str:
    return sniff(data[:HEAD_BYTES], data[-TAIL_BYTES:])


def office(*members: str, first: tuple[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        if first is not None:
            archive.writestr(*first)
        for member in members:
            archive.writestr(member, "x")
    return buffer.getvalue()


PHP_WARNING = b"<br />\n<b>Warning</b>:  Cannot modify header information in <b>/x.php</b> on line <b>3</b><br />\n"


@pytest.mark.parametrize(
    ("data", "mimetype"),
    [
        (PDF, "application/pdf"),
        (b"\n" + PDF, "application/pdf"),
        (b"\xef\xbb\xbf" + PDF, "application/pdf"),
        (b"junk" * 225 + PDF, "application/pdf"),
        (PHP_WARNING + PDF, "application/pdf"),
        (b"Warning: something\n" + PDF, "application/pdf"),
        (b"junk " * 1000 + PDF, "text/plain"),
        (b"<html><body>How to read %PDF-1.4 files, with 1 0 obj</body></html>", "text/html"),
        (b"The header of a PDF is %PDF-1.4, nothing more.", "text/plain"),
        (b"<!DOCTYPE html><title>x</title>", "text/html"),
        (b"\xef\xbb\xbf  \r\n<HTML>", "text/html"),
        (b"<!-- a comment --><html>", "text/html"),
        (b"<!-- a comment that never ends " + b"x" * 9000, "text/html"),
        (b"<p>fragment", "text/html"),
        (b"<my-element>", "text/html"),
        (b"Notice: undefined index\n<html><body>", "text/html"),
        ("<html>".encode("utf-16"), "text/html"),
        (b'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml">', "application/xhtml+xml"),
        (b'<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "x.dtd"><html xmlns="http://www.w3.org/1999/xhtml">',
         "text/html"),
        (b'<article article-type="research-article"><front/></article>', "application/jats+xml"),
        (b"<article><front><journal-meta/></front></article>", "application/jats+xml"),
        (b'<article class="post"><p>blog</p></article>', "text/html"),
        (b'<?xml version="1.0"?><article><p>x</p></article>', "application/xml"),
        (b'<!DOCTYPE article PUBLIC "-//NLM//DTD JATS (Z39.96) Journal Publishing DTD v1.1//EN" "x"><article/>',
         "application/jats+xml"),
        (b'<!DOCTYPE article [<!ENTITY x "y">]><article><p>&x;</p></article>', "application/xml"),
        (b"<pmc-articleset><article/></pmc-articleset>", "application/jats+xml"),
        (b'<TEI xmlns="http://www.tei-c.org/ns/1.0">', "application/tei+xml"),
        (b'<?xml version="1.0"?>\n<!-- c -->\n<tei:TEI xmlns:tei="x">', "application/tei+xml"),
        (b"<?xml version='1.0'?><!DOCTYPE art SYSTEM 'http://x/article.dtd'><art>", "application/xml"),
        (b'<?xml version="1.0"?><rss version="2.0">', "application/rss+xml"),
        (b'<svg xmlns="http://www.w3.org/2000/svg">', "image/svg+xml"),
        (b'{"a": 1}', "application/json"),
        (b"[]", "application/json"),
        (b"\\documentclass{article}", "text/x-tex"),
        (b"%!PS-Adobe-3.0", "application/postscript"),
        (b"\x1f\x8b\x08\x00", "application/gzip"),
        (b"PK\x03\x04" + b"\x00" * 40, "application/zip"),
        (office("[Content_Types].xml", "word/document.xml"),
         "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        (office("xl/workbook.xml"), "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        (office("x.xhtml", first=("mimetype", "application/epub+zip")), "application/epub+zip"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "WordDocument".encode("utf-16-le"), "application/msword"),
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"plain words", "text/plain"),
        (b"\x00\x01\x02\x03", "application/octet-stream"),
        (b"", "application/octet-stream"),
    ],
)  # fmt: skip
def test_content_decides_the_type(data: bytes, mimetype: str) -> None:
    assert kind(data) == mimetype


def test_every_real_pdf_but_the_headless_one_is_a_pdf(fixtures: pathlib.Path) -> None:
    kinds = {path.name: kind(path.read_bytes()) for path in (fixtures / "pdf").iterdir()}
    assert {name for name, mimetype in kinds.items() if mimetype != "application/pdf"} == {"bad1.pdf"}


def test_every_real_jats_and_tei_file_is_known_for_what_it_is(fixtures: pathlib.Path) -> None:
    jats = {path.name: kind(path.read_bytes()) for path in (fixtures / "jats").iterdir() if "catalog" not in path.name}
    tei = {path.name: kind(path.read_bytes()) for path in (fixtures / "tei").iterdir()}
    assert set(jats.values()) == {"application/jats+xml"}
    assert set(tei.values()) == {"application/tei+xml"}


def test_xml_in_wide_encodings_and_ebcdic_is_xml(fixtures: pathlib.Path) -> None:
    assert {kind(path.read_bytes()) for path in (fixtures / "xml-edge").iterdir()} == {"application/xml"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp037", "cp500", "cp273"])
def test_what_xml_is_does_not_depend_on_its_encoding(encoding: str) -> None:
    declared = encoding if encoding.startswith("cp") else "utf-16"
    for root, mimetype in (("<article article-type='x'/>", "application/jats+xml"), ("<TEI/>", "application/tei+xml")):
        document = f'<?xml version="1.0" encoding="{declared}"?>\n<!-- a comment -->\n{root}'.encode(encoding)
        assert sniff(document) == mimetype
    assert sniff('<?xml version="1.0" encoding="IBM-1047"?><TEI/>'.encode("cp037")) == "application/xml"


def test_the_end_mark_of_a_pdf_counts_only_near_its_end() -> None:
    assert has_pdf_end(PDF)
    assert has_pdf_end(PDF + b"\0" * 1000)
    assert not has_pdf_end((b"%%EOF" + b"x" * 5000)[-TAIL_BYTES:])


def test_three_digests_come_from_one_pass() -> None:
    found = digest([PDF[:10], PDF[10:]])
    assert (found.sha1hex, found.sha256hex, found.md5hex, found.size_bytes) == (
        hashlib.sha1(PDF).hexdigest(),
        hashlib.sha256(PDF).hexdigest(),
        hashlib.md5(PDF).hexdigest(),
        len(PDF),
    )


def test_a_file_of_each_type_that_is_recognised_has_an_extension() -> None:
    source = pathlib.Path(files.__file__).read_text("utf-8")
    named = set(re.findall(r'"((?:application|audio|image|text|video)/[\w.+-]+)"', source))
    assert named <= set(EXTENSIONS) and {mimetype for mimetype, end in EXTENSIONS.items() if not end} == {UNKNOWN}
    assert all(re.fullmatch(r"(\.[a-z0-9]+)*", end) for end in EXTENSIONS.values())
