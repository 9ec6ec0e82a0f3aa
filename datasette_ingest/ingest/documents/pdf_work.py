"""Reading a PDF, for a pool: the server imports this module, and only the pool's process the reader with its native code."""

from __future__ import annotations

from .pdf_read import PdfRead


def read_pdf(source: bytes | str, *, with_text: bool, with_picture: bool) -> PdfRead:
    """Runs in a process of a pool, which ends it if it takes too long, needs too much memory or crashes.

    :param source: the file, or the path of it
    """
    from .pdf_reading import read

    return read(source, with_text=with_text, with_picture=with_picture)
