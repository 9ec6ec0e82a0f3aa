"""PDF files."""

from __future__ import annotations

from ..errors import NoPdfLink, TruncatedBody
from ..fetch.base import Resource
from ..files import PDF, has_pdf_end
from ..urls import mask
from .base import IngestType

MISSING_EOF = "missing-eof"
"""Warning: the file lacks its end mark though the server sent all that it had announced."""


async def check(resource: Resource) -> tuple[str, ...]:
    """A PDF ends with %%EOF. Without it, only a body whose length was announced is known to be all there is."""
    if has_pdf_end(resource.body.tail):
        return ()
    if resource.ends_with_connection:
        raise TruncatedBody(f"the PDF at {mask(resource.url)} has no end, and the server gave no length")
    return (MISSING_EOF,)


TYPE = IngestType(
    name="pdf",
    mimetypes=frozenset({PDF}),
    no_link=lambda where: NoPdfLink(f"no link to a PDF on the page {where}"),
    check=check,
)
