"""The processor of XML documents: facts about the work, its text, and the document in UTF-8."""

from __future__ import annotations

from ..facts import FullText, XmlMeta
from ..files import JATS, TEI, XML
from ..http.body import in_thread
from ..model import MIB
from ..settings import CrawlSettings
from .base import DerivedFile, Document, Findings, ProcessContext, Processor, full_text
from .pool import ProcessError
from .xml_reading import XmlRead, read_xml

MAX_BYTES = 32 * MIB
"""A larger document is not read: its tree takes ten times its bytes."""

_MIMETYPES = {"jats": JATS, "scielo": JATS, "tei": TEI}


def processor(settings: CrawlSettings) -> Processor:
    tables = (XmlMeta.table, FullText.table) if settings.fulltext else (XmlMeta.table,)
    return Processor("xml", "1", frozenset({XML, JATS, TEI}), _process, tables=tables)


async def _process(document: Document, context: ProcessContext) -> Findings:
    read = await _read(document, context)
    meta = XmlMeta(
        context.sha1hex,
        status=read.status,
        dialect=read.dialect,
        encoding=read.encoding,
        word_count=read.word_count,
        biblio=read.biblio,
        processor=processor(context.settings).label,
    )
    words = full_text(read.text or None, context)
    copy = () if read.utf8 is None else (DerivedFile("xml", _MIMETYPES.get(read.dialect or "", XML), read.utf8),)
    return Findings((meta, *words.facts), (*words.files, *copy))


async def _read(document: Document, context: ProcessContext) -> XmlRead:
    body = document.body
    if body.size > MAX_BYTES:
        return XmlRead(status="too-large")
    data = await in_thread(body.read)
    try:
        return await context.pool.run(read_xml, data, document.content_type)
    except ProcessError as problem:
        return XmlRead(status=problem.status)
