"""The character encoding of an HTML page, decided as browsers do (https://html.spec.whatwg.org/, 13.2.3)."""

from __future__ import annotations

import re

from w3lib.encoding import resolve_encoding

PRESCAN_BYTES = 1024
FALLBACK = "cp1252"

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16-be"), (b"\xff\xfe", "utf-16-le"))
_SPACE = r"\t\n\f\r "
_CHARSET = re.compile(
    rf"""charset[{_SPACE}]*=[{_SPACE}]*("[^"]*"|'[^']*'|[^{_SPACE};"'][^{_SPACE};]*)""".encode(), re.IGNORECASE
)
# "Get an attribute" of the standard: a name, and a value that may be quoted.
_ATTRIBUTE = re.compile(
    rf"""[{_SPACE}/]*([^{_SPACE}/>][^{_SPACE}/>=]*)"""
    rf"""(?:[{_SPACE}]*=[{_SPACE}]*(?:"([^"]*)(?:"|\Z)|'([^']*)(?:'|\Z)|([^{_SPACE}>"'][^{_SPACE}>]*)?))?""".encode()
)
_TAG = re.compile(rf"<(?:(meta)(?=[{_SPACE}/])|/?[A-Za-z][^{_SPACE}>]*)".encode(), re.IGNORECASE)
_TAG_END = re.compile(rf"[{_SPACE}/]*>".encode())


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
    name = resolve_encoding(label.strip(b"\"'\t\n\f\r ").decode("latin-1"))
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
            position = data.find(b"-->", position + 2)
        elif tag := _TAG.match(data, position):
            attributes, position = _attributes(data, tag.end())
            label = _label(attributes) if tag[1] and position >= 0 else None
            if label is not None:
                return label
        elif data[position + 1 : position + 2] in (b"!", b"/", b"?"):
            position = data.find(b">", position)
        else:
            position += 1
        if position < 0:
            return None
    return None


def _label(attributes: dict[bytes, bytes]) -> bytes | None:
    """The encoding label that a meta element declares, if it is a known one."""
    label = attributes.get(b"charset")
    if label is None:
        named = _CHARSET.search(attributes.get(b"content", b""))
        if named is None or attributes.get(b"http-equiv") != b"content-type":
            return None
        label = named[1].strip(b"\"'")
    if python_encoding(label) is None:
        return None
    # A page that could be read this far is not UTF-16, whatever it says; x-user-defined is windows-1252.
    lowered = label.strip().lower()
    if lowered.startswith(b"utf-16"):
        return b"utf-8"
    return b"windows-1252" if lowered == b"x-user-defined" else label


def _attributes(data: bytes, position: int) -> tuple[dict[bytes, bytes], int]:
    """The attributes of a tag, lower-case, the first of each name, and where the tag ends: -1 if the data ends before."""
    found: dict[bytes, bytes] = {}
    while match := _ATTRIBUTE.match(data, position):
        position = match.end()
        found.setdefault(match[1].lower(), (match[2] or match[3] or match[4] or b"").lower())
    end = _TAG_END.match(data, position)
    return found, end.end() if end else -1
