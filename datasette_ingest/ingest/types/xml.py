"""XML full text: JATS, TEI and the dialects of single publishers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lxml import etree

from ..documents.xml_parsing import problem_of
from ..errors import IngestError, WrongMimetype, XmlParseError
from ..fetch.base import Resource
from ..files import HEAD_BYTES, JATS, TEI, XML
from ..http.body import INLINE_BYTES, in_thread
from ..urls import mask
from ..xml_encoding import encodings, not_readable
from .base import IngestType


async def check(resource: Resource) -> tuple[str, ...]:
    """The whole file must be well-formed; entities are neither fetched nor multiplied."""
    body, where = resource.body, mask(resource.url)

    def parse() -> IngestError | None:
        return well_formed(body.pieces, where=where, content_type=resource.content_type)

    error = parse() if body.size <= INLINE_BYTES else await in_thread(parse)
    if error is not None:
        raise error
    return ()


def well_formed(pieces: Callable[[], Iterable[bytes]], *, where: str, content_type: str = "") -> XmlParseError | None:
    """None for well-formed XML, else why it is not. Opens no file and no connection, whatever the document names.

    :param pieces: returns the document, from its beginning; called once for each encoding that is tried
    """
    head = _head(pieces())
    if not head:
        return XmlParseError(f"the XML at {where} is empty")
    problems: list[UnicodeDecodeError] = []
    for encoding in encodings(head, content_type):
        problem = problem_of(encoding.utf8(pieces()))
        if problem is None:
            return None
        if isinstance(problem, etree.LxmlError):
            return XmlParseError(f"the XML at {where} does not parse: {str(problem)[:300]}")
        problems.append(problem)
    return XmlParseError(f"the XML at {where} {not_readable(head, content_type, problems)}")


def _head(pieces: Iterable[bytes]) -> bytes:
    head = b""
    for piece in pieces:
        head += piece[:HEAD_BYTES]
        if len(head) >= HEAD_BYTES:
            break
    return head


TYPE = IngestType(
    name="xml",
    mimetypes=frozenset({XML, JATS, TEI}),
    no_link=lambda where: WrongMimetype(f"an HTML page that has no link to XML, at {where}"),
    check=check,
)
