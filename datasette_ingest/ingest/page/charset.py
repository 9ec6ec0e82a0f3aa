"""The character encoding of an HTML page, decided as browsers do (https://html.spec.whatwg.org/, 13.2.3)."""

from __future__ import annotations

import re

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


_LABELS_BY_CODEC = {
    "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8",
    "cp866": "866 cp866 csibm866 ibm866",
    "iso8859-2": "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2",
    "iso8859-3": "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3",
    "iso8859-4": "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4",
    "iso8859-5": "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988",
    "iso8859-6": """
        arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e
        iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987
    """,
    "iso8859-7": """
        csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 iso_8859-7
        iso_8859-7:1987 sun_eu_greek
    """,
    "iso8859-8": """
        csiso88598e csiso88598i csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-8859-8-i iso-ir-138
        iso8859-8 iso88598 iso_8859-8 iso_8859-8:1988 logical visual
    """,
    "iso8859-10": "csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    "iso8859-13": "iso-8859-13 iso8859-13 iso885913",
    "iso8859-14": "iso-8859-14 iso8859-14 iso885914",
    "iso8859-15": "csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9",
    "iso8859-16": "iso-8859-16",
    "koi8-r": "cskoi8r koi koi8 koi8-r koi8_r",
    "koi8-u": "koi8-ru koi8-u",
    "mac-roman": "csmacintosh mac macintosh x-mac-roman",
    "cp874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874",
    "cp1250": "cp1250 windows-1250 x-cp1250",
    "cp1251": "cp1251 windows-1251 x-cp1251",
    "cp1252": """
        ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591
        iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252 x-user-defined
    """,
    "cp1253": "cp1253 windows-1253 x-cp1253",
    "cp1254": """
        cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5
        windows-1254 x-cp1254
    """,
    "cp1255": "cp1255 windows-1255 x-cp1255",
    "cp1256": "cp1256 windows-1256 x-cp1256",
    "cp1257": "cp1257 windows-1257 x-cp1257",
    "cp1258": "cp1258 windows-1258 x-cp1258",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "gb18030": "chinese csgb2312 csiso58gb231280 gb18030 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk",
    "big5hkscs": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc_jp": "cseucpkdfmtjapanese euc-jp x-euc-jp",
    "iso2022_jp": "csiso2022jp iso-2022-jp",
    "cp932": "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis",
    "cp949": """
        cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601
        windows-949
    """,
    "iso2022_kr": "csiso2022kr iso-2022-kr",
    "utf-16-be": "unicodefffe utf-16be",
    "utf-16-le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le",
}
"""Python's codec -> the labels of the Encoding Standard (https://encoding.spec.whatwg.org/, 4.2) that mean it. Those of the
standard's "replacement", of which a browser shows nothing, are left out: the page is read by what else it says."""
_CODECS = {label: codec for codec, labels in _LABELS_BY_CODEC.items() for label in labels.split()}


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
    """Python's codec for a label of the Encoding Standard, or None for any other: as if it had not been sent."""
    return _CODECS.get(label.strip(b"\"'\t\n\f\r ").lower().decode("latin-1"))


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
