"""PDFs made by code: plain ones, and those that do harm."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence


def pdf_file(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """A file of these objects, numbered from 1; the first is the catalogue."""
    file = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(file))
        file += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = len(file)
    file += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    file += b"".join(b"%010d 00000 n \n" % place for place in places)
    file += b"trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, table)
    return bytes(file)


def stream(content: bytes, entries: bytes = b"") -> bytes:
    packed = zlib.compress(content)
    return b"<< /Length %d /Filter /FlateDecode %s >>\nstream\n%s\nendstream" % (len(packed), entries, packed)


def pdf(
    *pages: str | bytes,
    page: bytes = b"/MediaBox [0 0 612 792]",
    info: Mapping[str, str] | None = None,
    encoding: bytes = b"/WinAnsiEncoding",
    more: Sequence[bytes] = (),
    resources: bytes = b"",
) -> bytes:
    """A file with these pages: a text, its lines one below the other, or a content stream.

    :param page: further entries of each page
    :param info: the document information dictionary
    :param more: objects, numbered from 5 on
    :param resources: further entries of each page's resources
    """
    first = 5 + len(more)
    kids = b" ".join(b"%d 0 R" % (first + 2 * at) for at in range(len(pages)))
    described = b"".join(b"/%s <%s>" % (key.encode(), text.encode("utf-16").hex().encode())
                         for key, text in (info or {}).items())  # fmt: skip
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding %s >>" % encoding,
        b"<< %s >>" % described,
        *more,
    ]
    for at, content in enumerate(pages):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R %s /Contents %d 0 R /Resources << /Font << /F1 3 0 R >> %s >> >>"
            % (page, first + 2 * at + 1, resources)
        )
        objects.append(stream(content if isinstance(content, bytes) else lines(content)))
    return pdf_file(objects, b"/Info 4 0 R /ID [<00ff> <01>]")


def lines(text: str) -> bytes:
    shown = [
        line.encode("cp1252").replace(b"\\", rb"\\").replace(b"(", rb"\(").replace(b")", rb"\)")
        for line in text.split("\n")
    ]
    return b"BT /F1 12 Tf 14 TL 72 700 Td " + b" T* ".join(b"(%s) Tj" % line for line in shown) + b" ET"


def forms_in_forms(levels: int = 12, times: int = 12) -> bytes:
    """Draws a form that draws another one twelve times, and so on: 12^12 times in the end."""
    inner = [
        stream(
            b"/X Do " * times if level + 1 < levels else lines("again"),
            b"/Type /XObject /Subtype /Form /BBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> /XObject << /X %d 0 R >> >>"
            % (6 + level),
        )
        for level in range(levels)
    ]
    return pdf(b"/X Do", more=inner, resources=b"/XObject << /X 5 0 R >>", info={"Title": "Forms"})


def large_image(side: int = 30_000) -> bytes:
    """A page with the picture of so many pixels in each direction, all black, and a text."""
    image = stream(
        bytes(side * side * 3 // 64),
        b"/Type /XObject /Subtype /Image /Width %d /Height %d /BitsPerComponent 8 /ColorSpace /DeviceRGB"
        % (side, side),
    )
    return pdf(
        lines("Words") + b" q 600 0 0 700 0 0 cm /I Do Q",
        more=[image],
        resources=b"/XObject << /I 5 0 R >>",
        info={"Title": "Image"},
    )


def tiny_tiles() -> bytes:
    """A text, and an area in so many tiles that drawing it does not end."""
    tile = stream(
        b"0 0 m 1 1 l S",
        b"/Type /Pattern /PatternType 1 /PaintType 1 /TilingType 1 /BBox [0 0 1 1] /XStep 0.00002 /YStep 0.00002 /Resources << >>",
    )
    return pdf(
        lines("Words") + b" /Pattern cs /P scn 0 0 600 700 re f",
        more=[tile],
        resources=b"/Pattern << /P 5 0 R >>",
        info={"Title": "Tiles"},
    )
