"""XML full text: JATS, TEI and the dialects of single publishers."""

from __future__ import annotations

from collections.abc import Iterable

from lxml import etree

from ..errors import IngestError, WrongMimetype, XmlParseError
from ..fetch.base import Resource
from ..files import JATS, TEI, XML
from ..http.body import INLINE_BYTES, in_thread
from ..urls import mask
from .base import IngestType


class _Nothing:
    """A parser target that keeps nothing: whether a file is well-formed costs no memory."""

    def start(self, tag: str, attributes: object) -> None: ...
    def end(self, tag: str) -> None: ...
    def data(self, data: str) -> None: ...
    def comment(self, text: str) -> None: ...
    def pi(self, target: str, data: str | None = None) -> None: ...

    def close(self) -> bool:
        return True


async def check(resource: Resource) -> tuple[str, ...]:
    """The whole file must be well-formed; entities are neither fetched nor multiplied."""
    where = mask(resource.url)

    def parse() -> IngestError | None:
        return well_formed(resource.body.pieces(), where=where)

    error = parse() if resource.body.size <= INLINE_BYTES else await in_thread(parse)
    if error is not None:
        raise error
    return ()


def well_formed(pieces: Iterable[bytes], *, where: str) -> XmlParseError | None:
    """None for well-formed XML, else why it is not. Opens no file and no connection, whatever the document names."""
    encoding: str | None = None
    parser: etree.XMLParser | None = None
    try:
        for piece in pieces:
            if parser is None:
                # A BOM outweighs what the declaration says (XML 1.0, appendix F).
                encoding = "utf-8" if piece.startswith(b"\xef\xbb\xbf") else None
                parser = etree.XMLParser(
                    target=_Nothing(),
                    encoding=encoding,
                    resolve_entities=False,
                    no_network=True,
                    load_dtd=False,
                    dtd_validation=False,
                    huge_tree=False,
                )
            parser.feed(piece)
        if parser is None:
            return XmlParseError(f"the XML at {where} is empty")
        parser.close()
    except etree.LxmlError as error:
        return XmlParseError(f"the XML at {where} does not parse: {str(error)[:300]}")
    return None


TYPE = IngestType(
    name="xml",
    mimetypes=frozenset({XML, JATS, TEI}),
    no_link=lambda where: WrongMimetype(f"an HTML page that has no link to XML, at {where}"),
    check=check,
)
