"""XML as attackers and old systems write it: judged without opening a file, asking a server, or unfolding a bomb."""

from __future__ import annotations

import ctypes
import os
import pathlib
import resource
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from datasette_ingest.ingest.documents.xml_reading import read_xml
from datasette_ingest.ingest.types.xml import well_formed

from ...conftest import missing
from ..origin import Origin, reply

SUCCESS, UNREADABLE, NO_XML = "success", "xml-parse-error", "wrong-mimetype"

ATTACKS = {
    "cyclic.xml": UNREADABLE,
    "dtd.xml": NO_XML,  # XHTML: a page
    "dtd_element.xml": SUCCESS,
    "external.xml": SUCCESS,
    "external_file.xml": SUCCESS,
    "quadratic.xml": UNREADABLE,
    "schema-include.xsd": NO_XML,
    "simple-ns.xml": SUCCESS,
    "simple.xml": SUCCESS,
    "xalan_exec.xsl": NO_XML,
    "xalan_write.xsl": NO_XML,
    "xmlbomb.xml": SUCCESS,  # six hundred characters, and we unfold none of them
    "xmlbomb2.xml": SUCCESS,
}
EDGES = {
    "ebcdic_566012.xml": SUCCESS,
    "iso-8859-5.xml": SUCCESS,
    "slashdot16.xml": SUCCESS,
    "text-4-byte-UTF-16-BE-offset.xml": SUCCESS,
    "text-4-byte-UTF-16-BE.xml": SUCCESS,
    "text-4-byte-UTF-16-LE-offset.xml": SUCCESS,
    "text-4-byte-UTF-16-LE.xml": SUCCESS,
    "utf16bebom.xml": SUCCESS,
    "utf16bom.xml": SUCCESS,
    "utf16lebom.xml": SUCCESS,
    "utf8bom.xml": SUCCESS,
}
IN_OPEN = 0x20
IN_NONBLOCK = os.O_NONBLOCK


@pytest.fixture
def bait(tmp_path: pathlib.Path) -> Iterator[tuple[pathlib.Path, Callable[[], bool]]]:
    """A file, and a question: was it opened, by Python or by any library of this process?"""
    if not sys.platform.startswith("linux"):
        missing("inotify")
    path = tmp_path / "bait.xml"
    path.write_text("<secret>")
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(IN_NONBLOCK)
    assert watch >= 0 and libc.inotify_add_watch(watch, os.fsencode(path), IN_OPEN) >= 0

    def was_opened() -> bool:
        try:
            event = os.read(watch, 4096)
        except BlockingIOError:
            return False
        return struct.unpack_from("iI", event)[1] & IN_OPEN != 0

    yield path, was_opened
    os.close(watch)


def test_the_bait_tells_when_it_is_opened(bait: Any) -> None:
    path, was_opened = bait
    assert not was_opened()
    path.read_text()
    assert was_opened()


def test_every_file_of_both_kinds_has_its_verdict_here(fixtures: pathlib.Path) -> None:
    assert {path.name for path in (fixtures / "xml-attacks").iterdir()} == set(ATTACKS)
    assert {path.name for path in (fixtures / "xml-edge").iterdir()} == set(EDGES)


@pytest.mark.parametrize(("name", "status"), ATTACKS.items())
async def test_an_attack_opens_nothing_and_asks_nobody(
    fixtures: pathlib.Path, ingest: Any, bait: Any, name: str, status: str
) -> None:
    path, was_opened = bait
    async with Origin() as site:
        document = (fixtures / "xml-attacks" / name).read_bytes()
        document = document.replace(b"file:///PATH/TO/xmltestdata/simple.xml", path.as_uri().encode())
        document = document.replace(b"http://www.w3schools.com", site.url("/asked").encode())
        site.handlers["/x"] = reply(document, content_type="application/xml")
        result = await ingest(site.url("/x"), "xml")
        read_xml(document)
    assert result.status == status
    assert site.targets == ["/x"] and site.connections == 1
    assert not was_opened()


REFERENCES = {
    "entity": '<!DOCTYPE article [<!ENTITY x SYSTEM "{}">]><article><p>&x;</p></article>',
    "parameter entity": '<!DOCTYPE article [<!ENTITY % x SYSTEM "{}"> %x;]><article><p/></article>',
    "entity in an attribute's default": '<!DOCTYPE article [<!ENTITY % x SYSTEM "{}"> <!ATTLIST p a CDATA "%x;">]>'
    "<article><p/></article>",
    "document type": '<!DOCTYPE article SYSTEM "{}"><article><p/></article>',
    "public document type": '<!DOCTYPE article PUBLIC "-//NLM//DTD JATS//EN" "{}"><article><p>&nbsp;</p></article>',
    "style sheet": '<?xml-stylesheet type="text/xsl" href="{}"?><article article-type="x"/>',
    "inclusion": '<article xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="{}"/><front/></article>',
    "schema": '<article xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="{}">'
    "<front/></article>",
}


@pytest.mark.parametrize("kind", REFERENCES)
async def test_what_a_document_refers_to_is_neither_opened_nor_asked_for(ingest: Any, bait: Any, kind: str) -> None:
    path, was_opened = bait
    async with Origin() as site:
        for number, target in enumerate((path.as_uri(), str(path), site.url("/asked"))):
            document = '<?xml version="1.0"?>' + REFERENCES[kind].format(target)
            site.handlers[f"/{number}"] = reply(document.encode(), content_type="text/xml")
            result = await ingest(site.url(f"/{number}"), "xml")
            assert result.status in (SUCCESS, UNREADABLE)
            read = read_xml(document.encode())
            assert "secret" not in f"{result.error_message} {read.text} {read.utf8!r}"
    assert site.targets == ["/0", "/1", "/2"]
    assert not was_opened()


def test_a_thousand_million_laughs_take_no_memory() -> None:
    levels = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    document = f'<!DOCTYPE article [<!ENTITY l0 "ha">{levels}]><article><p>&l9;</p></article>'
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    error = well_formed(lambda: [document.encode()], where="here")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert error is None or error.status == UNREADABLE
    assert grown < 32 * 1024, "KiB"


@pytest.mark.parametrize(("name", "status"), EDGES.items())
async def test_encodings_are_read_by_bom_or_declaration(
    fixtures: pathlib.Path, ingest: Any, name: str, status: str
) -> None:
    document = (fixtures / "xml-edge" / name).read_bytes()
    async with Origin({"/x": reply(document, content_type="application/octet-stream")}) as site:
        result = await ingest(site.url("/x"), "xml")
    assert (result.status, result.file_meta.size_bytes) == (status, len(document))
