"""The character encoding of an HTML page, decided as browsers do (https://html.spec.whatwg.org/, 13.2.3)."""

from __future__ import annotations

import re

from w3lib.encoding import resolve_encoding

PRESCAN_BYTES = 1024
FALLBACK = "cp1252"

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16-be"), (b"\xff\xfe", "utf-16-le"))
_SPACE = b"\t\n\x0c\r "
_CHARSET = re.compile(
    rb"charset[\t\n\x0c\r ]*=[\t\n\x0c\r ]*(\"[^\"]*\"|'[^']*'|[^\t\n\x0c\r ;\"'][^\t\n\x0c\r ;]*)", re.I
)


def decode_html(data: bytes, content_type: str = "") -> str:
    """The page as text. Never fails: what cannot be decoded becomes U+FFFD."""
    encoding, skip = html_encoding(data, content_type)
    return data[skip:].decode(encoding, "replace")


def html_encoding(data: bytes, content_type: str = "") -> tuple[str, int]:
    """Python's name of the encoding, and how many bytes of BOM to skip.

    Order: BOM, the transport's charset, the page's own declaration, UTF-8 if it is valid, else windows-1252.
    """
    for bom, name in _BOMS:
        if data.startswith(bom):
            return name, len(bom)
    named = _CHARSET.search(content_type.encode("latin-1", "replace"))
    for label in (named[1] if named else None, prescan(data[:PRESCAN_BYTES])):
        encoding = python_encoding(label) if label is not None else None
        if encoding is not None:
            return encoding, 0
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return FALLBACK, 0
    return "utf-8", 0


def python_encoding(label: bytes) -> str | None:
    """Python's codec for a label of the Encoding Standard, or None for an unknown one."""
    name = resolve_encoding(label.strip(b"\"'" + _SPACE).decode("latin-1"))
    return str(name) if name else None


def prescan(data: bytes) -> bytes | None:
    """The encoding label that a page declares in a meta element, or None.

    The "prescan a byte stream" algorithm: comments and other tags are skipped as a tokenizer would, so that a
    declaration inside a comment, an attribute or a script's string does not count.
    """
    if b"charset" not in data.lower():
        return None
    position = 0
    while (position := data.find(b"<", position)) >= 0:
        if data.startswith(b"<!--", position):
            end = data.find(b"-->", position + 2)
            if end < 0:
                return None
            position = end + 3
        elif _META.match(data, position):
            label, position = _meta_label(data, position + 5)
            if label is not None:
                return label
        elif _TAG.match(data, position):
            space = _TAG_END.search(data, position)
            if space is None:
                return None
            position = space.start()
            attribute: tuple[bytes, bytes] | None = (b"", b"")
            while attribute is not None:
                attribute, position = _attribute(data, position)
        elif data[position + 1 : position + 2] in (b"!", b"/", b"?"):
            end = data.find(b">", position)
            if end < 0:
                return None
            position = end + 1
        else:
            position += 1
    return None


_META = re.compile(rb"<meta[\t\n\x0c\r /]", re.I)
_TAG = re.compile(rb"</?[A-Za-z]")
_TAG_END = re.compile(rb"[\t\n\x0c\r >]")


def _meta_label(data: bytes, position: int) -> tuple[bytes | None, int]:
    seen: set[bytes] = set()
    got_pragma, needs_pragma, label = False, False, None
    while True:
        attribute, position = _attribute(data, position)
        if attribute is None:
            break
        name, value = attribute
        if name in seen:
            continue
        seen.add(name)
        if name == b"http-equiv":
            got_pragma = value == b"content-type"
        elif name == b"content" and label is None:
            found = _CHARSET.search(value)
            if found:
                label, needs_pragma = found[1].strip(b"\"'"), True
        elif name == b"charset":
            label, needs_pragma = value, False
    if label is None or (needs_pragma and not got_pragma) or python_encoding(label) is None:
        return None, position
    # A page that could be read this far is not UTF-16, whatever it says; x-user-defined is windows-1252.
    lowered = label.strip(_SPACE).lower()
    if lowered.startswith(b"utf-16"):
        return b"utf-8", position
    return (b"windows-1252" if lowered == b"x-user-defined" else label), position


def _attribute(data: bytes, position: int) -> tuple[tuple[bytes, bytes] | None, int]:
    """The next attribute of a tag, lower-case, or None at the tag's end; and where to go on."""
    end = len(data)
    while position < end and data[position] in b"\t\n\x0c\r /":
        position += 1
    if position >= end or data[position] == 0x3E:
        return None, position
    start = position
    while position < end and data[position] not in b"\t\n\x0c\r />" and (data[position] != 0x3D or position == start):
        position += 1
    name = data[start:position].lower()
    after_name = position
    while position < end and data[position] in _SPACE:
        position += 1
    if position >= end or data[position] != 0x3D:
        return (name, b""), after_name if position >= end else position
    position += 1
    while position < end and data[position] in _SPACE:
        position += 1
    if position >= end:
        return None, position
    if data[position] in b"\"'":
        quote = data[position : position + 1]
        close = data.find(quote, position + 1)
        if close < 0:
            return None, end
        return (name, data[position + 1 : close].lower()), close + 1
    start = position
    while position < end and data[position] not in b"\t\n\x0c\r >":
        position += 1
    if position >= end:
        return None, position
    return (name, data[start:position].lower()), position
