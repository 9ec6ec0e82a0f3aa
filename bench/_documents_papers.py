"""Makes PDFs like papers: twelve pages of words in four fonts with lines and figures, about 200 kB each, all different."""

from __future__ import annotations

import pathlib
import random
import zlib

PAGES = 12
IMAGE_BYTES = 130_000
_FONTS = (b"Times-Roman", b"Times-Bold", b"Times-Italic", b"Helvetica")
_LETTERS = "etaoinshrdlucmfwypvbgkqjxz"


def make_papers(folder: pathlib.Path, count: int) -> list[str]:
    """The names of the files."""
    names = [f"{number}.pdf" for number in range(count)]
    for number, name in enumerate(names):
        (folder / name).write_bytes(_paper(random.Random(number)))
    return names


def _paper(chance: random.Random) -> bytes:
    first = 3 + len(_FONTS) + 1
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(b"%d 0 R" % (first + 2 * at) for at in range(PAGES)), PAGES),
        *(b"<< /Type /Font /Subtype /Type1 /BaseFont /%s /Encoding /WinAnsiEncoding >>" % name for name in _FONTS),
        _stream(chance.randbytes(IMAGE_BYTES), b"/Type /XObject /Subtype /Image /Width 260 /Height 500 /BitsPerComponent 8 /ColorSpace /DeviceGray"),
    ]  # fmt: skip
    fonts = b" ".join(b"/F%d %d 0 R" % (at, 3 + at) for at in range(len(_FONTS)))
    for at in range(PAGES):
        shown = b"/Resources << /Font << %s >> /XObject << /I %d 0 R >> >>" % (fonts, first - 1)
        page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R %s >>"
        objects.append(page % (first + 2 * at + 1, shown))
        objects.append(_stream(_content(chance, with_figure=at in (0, 5))))
    file, places = bytearray(b"%PDF-1.5\n"), []
    for number, content in enumerate(objects, 1):
        places.append(len(file))
        file += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = len(file)
    file += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    file += b"".join(b"%010d 00000 n \n" % place for place in places)
    file += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table)
    return bytes(file)


def _stream(content: bytes, entries: bytes = b"") -> bytes:
    packed = zlib.compress(content)
    return b"<< /Length %d /Filter /FlateDecode %s >>\nstream\n%s\nendstream" % (len(packed), entries, packed)


def _content(chance: random.Random, *, with_figure: bool) -> bytes:
    """Two columns of 55 lines, and on some pages a figure with a hundred strokes."""
    parts = []
    for left in (50, 310):
        parts.append(b"BT 11.5 TL %d 790 Td" % left)
        for number in range(55):
            font = chance.randrange(len(_FONTS)) if number % 9 == 0 else 0
            parts.append(b"/F%d 9 Tf (%s) Tj T*" % (font, " ".join(_word(chance) for _ in range(8)).encode()))
        parts.append(b"ET")
    if with_figure:
        parts.append(b"q 200 0 0 120 320 60 cm /I Do Q")
        parts += (b"%d %d m %d %d l S" % tuple(chance.randrange(50, 250) for _ in range(4)) for _ in range(100))
    return b"\n".join(parts)


def _word(chance: random.Random) -> str:
    return "".join(_LETTERS[min(chance.randrange(26), chance.randrange(26))] for _ in range(chance.randrange(2, 10)))
