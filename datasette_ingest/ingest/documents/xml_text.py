"""The text of an XML document: paragraphs as a reader would see them, whatever vocabulary it is in.

Left out are reference lists, since a word there is not the work's own, and what describes the file or the journal.
Footnotes follow the paragraph that they are in. A row of a table is a line, its cells separated by tabs. A formula is the
symbols of its MathML with blanks between them, or its TeX.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..page.html import squeeze

MAX_TEXT = 10_000_000
"""Characters of a text that are kept."""

LEFT_OUT = frozenset(
    """ref-list listbibl refgrp references bibliography reference-list citation-list journal-meta teiheader object-id
    annotation annotation-xml fw permissions custom-meta-group processing-meta""".split()  # noqa: SIM905
)
_BLOCKS = frozenset(
    """abstract ack app app-group aff article article-title back body bio boxed-text caption def def-list disp-quote div
    div1 div2 div3 div4 div5 div6 div7 docauthor doctitle entry fig figure figdesc floats-group fn-group front front-stub
    glossary head item kwd l lg list list-item notes p paragraph para quote-block row sec sec-title section sig-block
    speech st statement sub-article subtitle supplementary-material table table-wrap table-wrap-foot tbody text tfoot
    thead title title-group titlepart tr trans-abstract trans-title verse-group verse-line response byline date-line
    sp stage argument epigraph salute signed closer opener trailer h1 h2 h3 h4 h5 h6 ul ol li dl dt dd blockquote pre
    name-content attrib""".split()  # noqa: SIM905
)
_ROWS = frozenset({"tr", "row"})
_CELLS = frozenset({"td", "th", "cell", "entry"})
_NOTES = frozenset({"fn", "note", "footnote"})
_MARKS = frozenset({"xref", "ref", "abbr", "abbrgrp"})
_LABELS = frozenset({"label"})
_SEPARATED = frozenset({"disp-formula", "formula", "inline-formula", "graphic", "media", "email", "ext-link", "uri"})
_BREAKS = frozenset({"break", "lb", "pb", "cb", "br", "hr"})
_INLINE = frozenset(
    """a abbr b bold bolditalic cite code em emph ext-link hi i inf it italic monospace named-content rend roman
    sans-serif sc small smallcaps span strong styled-content sub sup tt u ulink underline xref""".split()  # noqa: SIM905
)
_PREFERRED = ("math", "table", "textual-form", "tex-math")
_CELL_END = "\x00"
_TEX_DOCUMENT = re.compile(r"\\begin\{document\}(.*?)\\end\{document\}", re.DOTALL)
_TOKENS = ("{*}mi", "{*}mn", "{*}mo", "{*}mtext", "{*}ms")


def local(element: Any) -> str:
    """The name of an element without its namespace, lower-case; empty for comments and the like."""
    tag = element.tag
    return tag.rpartition("}")[2].lower() if isinstance(tag, str) else ""


def paragraphs(parts: Iterable[Any], *, known: bool = True) -> list[str]:
    """The paragraphs of some elements.

    :param known: whether their vocabulary is one whose paragraphs are known by name. In any other an element is a
        paragraph unless there is text beside it
    """
    reader = _Reader(known=known)
    for part in parts:
        reader.read(part)
        reader.end()
    return reader.paragraphs


def line(element: Any, *, without: frozenset[str] = frozenset()) -> str:
    """The text of an element as one line; names in `without` are left out, as are notes and marks of them."""
    left_out = without | _NOTES | {"xref"}

    def texts(inside: Any) -> Iterator[str]:
        yield inside.text or ""
        for child in inside:
            if local(child) in _BREAKS:
                yield " "
            elif (name := local(child)) and name not in left_out:
                yield " " if name in _BLOCKS else ""
                yield from (_math(child),) if name == "math" else texts(child)
                yield " " if name in _BLOCKS else ""
            yield child.tail or ""

    return squeeze("".join(texts(element)))


class _Reader:
    """Mutable, for one document."""

    def __init__(self, *, known: bool) -> None:
        self.paragraphs: list[str] = []
        self._known = known
        self._pieces: list[str] = []
        """Of the paragraph that is open; none is empty."""
        self._has_words = False
        self._notes: list[str] = []
        self._after_label = False
        self._in_row = self._after_row = False
        self._has_text_beside = False

    def read(self, element: Any) -> None:
        name = local(element)
        if name in LEFT_OUT or not name:
            return
        if name in _NOTES and self._has_words:
            note = _Reader(known=self._known)
            note.read(element)
            note.end()
            self._notes += note.paragraphs
        elif name == "alternatives":
            self._read_one_of(element)
        elif name in ("math", "tex-math"):
            self._add(_math(element) if name == "math" else _tex(element))
        elif name in _BREAKS:
            self._add(None if element.get("break") == "no" else " ")
        elif self._is_block(name):
            self._read_block(element, is_row=name in _ROWS)
        else:
            self._read_inline(element, name)

    def end(self, *, is_row: bool = False) -> None:
        """End the paragraph that is open, if one is."""
        text = re.sub(rf" ?{_CELL_END} ?", "\t", squeeze("".join(self._pieces))).strip("\t")
        self._pieces, self._has_words, self._after_label = [], False, False
        if text and is_row and self._after_row:
            self.paragraphs[-1] += f"\n{text}"
        elif text:
            self.paragraphs.append(text)
        if text:
            self._after_row = is_row
        if self._notes:
            self.paragraphs += self._notes
            self._notes, self._after_row = [], False

    def _read_block(self, element: Any, *, is_row: bool) -> None:
        if self._in_row:
            # A paragraph in a cell does not end the row.
            self._add(" ")
            self._inside(element)
            self._add(" ")
            return
        if self._after_label:
            self._add(" ")
        else:
            self.end()
        self._in_row = is_row
        self._inside(element)
        self._in_row = False
        self.end(is_row=is_row)

    def _inside(self, element: Any) -> None:
        outside = self._has_text_beside
        self._has_text_beside = not self._known and _has_text(element)
        self._add(element.text)
        for child in element:
            self.read(child)
            self._add(child.tail)
        self._has_text_beside = outside

    def _add(self, text: str | None) -> None:
        if text:
            self._pieces.append(text)
            if not text.isspace():
                self._has_words, self._after_label = True, False

    def _read_inline(self, element: Any, name: str) -> None:
        ends_a_word = bool(self._pieces) and self._pieces[-1][-1].isalnum()
        is_apart = name in _SEPARATED or (name in _MARKS and ends_a_word)
        self._add(" " if is_apart else None)
        self._inside(element)
        self._add(_CELL_END if name in _CELLS else " " if name in _SEPARATED or name in _LABELS else None)
        self._after_label = self._after_label or (name in _LABELS and not self._in_row)

    def _read_one_of(self, element: Any) -> None:
        """Of several forms of one thing, the one that says most as text."""
        forms = {local(child): child for child in reversed(element)}
        chosen = next((forms[name] for name in _PREFERRED if name in forms), None)
        for form in element if chosen is None else (chosen,):
            self.read(form)

    def _is_block(self, name: str) -> bool:
        if name in _CELLS:
            return False
        if name in _BLOCKS or name in _ROWS or self._known:
            return name in _BLOCKS or name in _ROWS
        return name not in _INLINE and not self._has_text_beside


def _has_text(element: Any) -> bool:
    return bool((element.text or "").strip()) or any((child.tail or "").strip() for child in element)


def _math(element: Any) -> str:
    tokens = (squeeze("".join(token.itertext())) for token in element.iter(*_TOKENS))
    return f" {' '.join(filter(None, tokens))} "


def _tex(element: Any) -> str:
    text = "".join(element.itertext())
    document = _TEX_DOCUMENT.search(text)
    return f" {document[1] if document else text} "
