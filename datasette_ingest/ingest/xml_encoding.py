"""The character encoding of an XML document, and the document in UTF-8, which every XML parser reads.

What may say it, the most trusted first (XML 1.0, 4.3.3 and appendix F; RFC 7303):

1. a byte order mark;
2. the first bytes, if they are those of UTF-16, UTF-32 or EBCDIC;
3. a label of UTF-8, in the declaration or the Content-Type header, since hardly any text in another encoding passes as
   UTF-8. Without any label it is UTF-8;
4. the declaration's label, then the header's. One that cannot be true, such as UTF-16 of single bytes, does not count.

The first of them that reads every byte is taken. A document that none reads is not well-formed.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

PARSED_AS = "utf-8"
"""What a parser is told of the bytes that `utf8` gives, whatever the document declares."""

_BOMS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
# "<" or white space, and the zero bytes beside it.
_WIDE = (
    (re.compile(rb"[<\t\n\r ]\x00\x00\x00"), "utf-32-le"),
    (re.compile(rb"\x00\x00\x00[<\t\n\r ]"), "utf-32-be"),
    (re.compile(rb"[<\t\n\r ]\x00"), "utf-16-le"),
    (re.compile(rb"\x00[<\t\n\r ]"), "utf-16-be"),
)
# "<?xm" in every EBCDIC code page.
_EBCDIC = b"\x4c\x6f\xa7\x94"
_ANY_EBCDIC = "cp037"
# Code pages that Python has, by the numbers that IBM gives them; of those with a euro sign, the page without.
_EBCDIC_PAGES = {number: f"cp{number:03}" for number in (37, 273, 424, 500, 875, 1026, 1140)}
_WITH_EURO = {1141: "cp273", 1148: "cp500"}
_PAGE_NUMBER = re.compile(r"(?:cs)?(?:ibm|cp|ccsid|ebcdic-cp-)?[-_]?0*(\d+)", re.IGNORECASE)
_EBCDIC_NAMES = {"ebcdic-cp-us": 37, "ebcdic-cp-de": 273, "ebcdic-cp-he": 424, "ebcdic-cp-be": 500, "ebcdic-cp-ch": 500}
_NEWLINE = {0x85: "\n"}
_NEWLINE_AND_EURO = {**_NEWLINE, 0xA4: "€"}

_DECLARATION = re.compile(r"""<\?xml\s[^>]*?\sencoding\s*=\s*(?:"([^"<>]{1,60})"|'([^'<>]{1,60})')""")
_CHARSET = re.compile(r"""charset\s*=\s*["']?([^\s"';,]{1,60})""", re.IGNORECASE)
# Codecs that are no encodings of documents, and such as begin with other bytes than this one does.
_NO_ENCODINGS = frozenset(
    {"utf-7", "idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem"}
)
_ASCII = "<?xml version='1.0'?>"
# What is called by the name of an encoding, and is one with more characters.
_SUPERSETS = {"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "big5": "cp950"}
_SPELLINGS = (
    (re.compile(r"iso8859-(\d+)"), r"iso-8859-\1"),
    (re.compile(r"cp(125\d|874)"), r"windows-\1"),
    (re.compile(r"(utf-(?:16|32))-([lb]e)"), r"\1\2"),
    (re.compile(r"cp(037|273|424|500|875|1026|1140)"), r"ibm\1"),
)


@dataclass(frozen=True)
class XmlEncoding:
    """An encoding that a document may be in."""

    codec: str
    """Python's name."""
    skip: int = 0
    """Bytes of its byte order mark."""
    number: int = 0
    """IBM's, of a code page that differs from the codec by its euro sign."""

    @property
    def name(self) -> str:
        """As a declaration spells it, lower-case: `utf-8`, `windows-1252`."""
        name = f"ibm{self.number}" if self.number else self.codec
        for spelling, usual in _SPELLINGS:
            name = spelling.sub(usual, name)
        return name.replace("_", "-")

    @property
    def _changes(self) -> dict[int, str] | None:
        if self.number:
            return _NEWLINE_AND_EURO
        return _NEWLINE if self.codec in _EBCDIC_PAGES.values() else None

    def utf8(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The document in UTF-8, without a byte order mark; its declaration stays as it is.

        :raises UnicodeDecodeError: for a byte that the encoding does not have
        """
        decoder = codecs.getincrementaldecoder(self.codec)()
        changes, left = self._changes, self.skip
        for piece in pieces:
            skipped, left = piece[left:], max(0, left - len(piece))
            text = decoder.decode(skipped)
            if self.codec == PARSED_AS:
                yield skipped
            elif text:
                yield (text.translate(changes) if changes else text).encode()
        decoder.decode(b"", final=True)


def is_ebcdic(head: bytes) -> bool:
    """Whether it begins as an XML declaration does in EBCDIC."""
    return head.startswith(_EBCDIC)


def by_first_bytes(head: bytes) -> XmlEncoding | None:
    """The encoding that the first bytes alone show: a byte order mark, wide characters, or EBCDIC that says which."""
    for bom, codec in _BOMS:
        if head.startswith(bom):
            return XmlEncoding(codec, skip=len(bom))
    for beginning, codec in _WIDE:
        if beginning.match(head):
            return XmlEncoding(codec)
    return _ebcdic(_declared(head.decode(_ANY_EBCDIC))) if is_ebcdic(head) else None


def encodings(head: bytes, content_type: str = "") -> tuple[XmlEncoding, ...]:
    """The encodings to try, in this order, by the first bytes of a document (a kilobyte) and its Content-Type header.

    Empty if it is in an EBCDIC code page that is not known.
    """
    shown = by_first_bytes(head)
    if shown is not None or is_ebcdic(head):
        return (shown,) if shown else ()
    labelled = _CHARSET.search(content_type)
    labels = (_declared(head.decode("latin-1")), labelled[1] if labelled else "")
    codecs_ = [codec for label in labels if (codec := _codec(label)) is not None]
    if not codecs_ or PARSED_AS in codecs_:
        codecs_.insert(0, PARSED_AS)
    tried = (codec for label in codecs_ for codec in (label, _SUPERSETS.get(label)) if codec)
    return tuple(XmlEncoding(codec) for codec in dict.fromkeys((*tried, PARSED_AS)))


def not_readable(head: bytes, content_type: str, problems: Sequence[UnicodeDecodeError]) -> str:
    """Why no encoding reads a document, as the rest of a sentence about it.

    :param problems: of the encodings that were tried, in that order
    """
    label = _declared(head.decode(_ANY_EBCDIC if is_ebcdic(head) else "latin-1"))
    if not problems:
        return f"declares the encoding {label or 'EBCDIC'!r}, which is not known"
    unknown = f"declares the unknown encoding {label!r}, and " if label and _codec(label) is None else ""
    byte = problems[0].object[problems[0].start]
    name = encodings(head, content_type)[0].name
    return f"{unknown}is not in the encoding {name}: {problems[0].reason} (byte 0x{byte:02x})"


def _declared(text: str) -> str:
    declaration = _DECLARATION.match(text)
    return (declaration[1] or declaration[2]).strip() if declaration else ""


def _codec(label: str) -> str | None:
    """Python's codec for the label of a document that begins with ASCII; None if that cannot be its encoding."""
    for name in (label, label.lower().removeprefix("x-")):
        try:
            codec = codecs.lookup(name).name
            known = codec not in _NO_ENCODINGS and _ASCII.encode(codec) == _ASCII.encode("ascii")
        except (LookupError, UnicodeError, ValueError, TypeError):
            continue
        if known:
            return PARSED_AS if codec == "utf-8-sig" else codec
    return None


def _ebcdic(label: str) -> XmlEncoding | None:
    named = _PAGE_NUMBER.fullmatch(label.partition("+")[0])
    number = int(named[1]) if named else _EBCDIC_NAMES.get(label.lower(), 0)
    if number in _WITH_EURO:
        return XmlEncoding(_WITH_EURO[number], number=number)
    return XmlEncoding(_EBCDIC_PAGES[number]) if number in _EBCDIC_PAGES else None
