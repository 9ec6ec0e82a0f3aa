"""The processor of PDFs: facts, text, and a picture of the first page."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ..facts import FullText, PdfMeta, Thumbnail
from ..files import PDF
from ..http.body import in_thread
from ..settings import CrawlSettings
from .base import DerivedFile, Document, Findings, ProcessContext, Processor, full_text
from .pdf_read import PdfRead
from .pdf_work import read_pdf
from .pool import ProcessError, ProcessPool

WEBP = "image/webp"
TRIES = ((True, True, 30.0), (True, False, 30.0), (False, False, 10.0))
"""(with text, with picture, seconds). Where reading all of a file fails, less of it is read: a page that cannot be drawn has
a text, and a file without a readable one has a title."""


def processor(settings: CrawlSettings) -> Processor:
    tables = [PdfMeta.table]
    tables += [FullText.table] if settings.fulltext else []
    tables += [Thumbnail.table] if settings.thumbnails else []
    return Processor("pdf", "1", frozenset({PDF}), _process, tables=tuple(tables))


async def _process(document: Document, context: ProcessContext) -> Findings:
    settings, sha1hex = context.settings, context.sha1hex
    read = await _read(document, context)
    meta = PdfMeta(
        sha1hex,
        status=read.status,
        has_page0_thumbnail=read.picture is not None,
        page_count=read.page_count,
        word_count=read.word_count,
        page0_height=read.page0_height,
        page0_width=read.page0_width,
        permanent_id=read.permanent_id,
        pdf_created=read.created,
        pdf_version=read.version,
        metadata=read.metadata,
        processor=processor(settings).label,
    )
    words, picture = full_text(read.text, context), read.picture
    if picture is None:
        return Findings((meta, *words.facts), words.files)
    thumbnail = Thumbnail(sha1hex, WEBP, picture.width, picture.height, picture.content)
    return Findings((meta, *words.facts, thumbnail), (*words.files, DerivedFile("thumbnail", WEBP, picture.content)))


async def _read(document: Document, context: ProcessContext) -> PdfRead:
    """As much as can be read, with the status of what failed first. Nothing that a file brings about is raised.

    :raises OSError: when no process can be started
    """
    source = document.body.path
    failed: PdfRead | None = None
    for with_text, with_picture, seconds in TRIES:
        if with_picture and not context.settings.thumbnails:
            continue
        how = {"with_text": with_text, "with_picture": with_picture}
        try:
            try:
                found = await _call(context.pool, document, source, how, seconds)
            except OSError:
                if source is None:
                    raise
                # The system does not let another process open it.
                source = None
                found = await _call(context.pool, document, source, how, seconds)
        except ProcessError as problem:
            failed = failed or PdfRead(problem.status)
        except OSError:
            raise  # no process can be started: not the file's fault
        except Exception as problem:  # noqa: BLE001 - the reader meets what nobody has foreseen
            failed = failed or PdfRead("error-crash", metadata={"error": f"{type(problem).__name__}: {problem}"[:200]})
        else:
            if failed is None:
                return found
            return replace(found, status=failed.status, metadata={**found.metadata, **failed.metadata})
    assert failed is not None
    return failed


async def _call(
    pool: ProcessPool, document: Document, path: str | None, how: dict[str, bool], seconds: float
) -> PdfRead:
    source = await in_thread(document.body.read) if path is None else path
    return await pool.run(partial(read_pdf, source, **how), seconds=seconds)
