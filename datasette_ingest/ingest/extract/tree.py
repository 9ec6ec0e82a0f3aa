"""Bytes of an HTML page -> its tree, and the URL that its references are seen from."""

from __future__ import annotations

import threading
from typing import Any

from lxml import etree

from ..errors import BadScheme, InvalidUrl
from ..urls import parse
from .charset import html_encoding


def parse_html(data: bytes, content_type: str) -> Any:
    """The root element of a page, or None where there is not one element. `content_type` is read for its charset."""
    encoding, skip = html_encoding(data, content_type)
    if encoding != "utf-8":
        # libxml2 knows fewer encodings than browsers do.
        data, skip = data[skip:].decode(encoding, "replace").encode("utf-8", "replace"), 0
    data = data[skip:].replace(b"\x00", b"")
    if not data.strip():
        return None
    try:
        return etree.fromstring(data, _parser())
    except etree.LxmlError:
        return None


def base_of(root: Any, url: str) -> str:
    """The first base element with an href decides, if it is a URL at all (HTML Standard, 4.2.3)."""
    for element in root.iter("base"):
        href = element.get("href")
        if href is None:
            continue
        try:
            return parse(href.strip(), url) if href.strip() else url
        except (InvalidUrl, BadScheme):
            return url
    return url


_of_thread = threading.local()


def _parser() -> Any:
    """This thread's parser: to make one takes longer than to parse a page's head, and to share one makes threads wait
    for each other's pages."""
    parser = getattr(_of_thread, "parser", None)
    if parser is None:
        parser = etree.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
        _of_thread.parser = parser
    return parser
