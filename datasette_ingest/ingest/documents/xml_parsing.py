"""XML documents in UTF-8 as trees, and whether one is well-formed. No file is opened and no server is asked, whatever a
document names, and its entities do not grow without limit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html.entities import html5
from typing import Any

from lxml import etree

from ..xml_encoding import PARSED_AS

MAX_ENTITIES = 10_000
"""Names of entities that a document may use and not declare."""
MAX_LOG = 100
"""Errors that a parser remembers."""

_SAFE = {
    "encoding": PARSED_AS,
    "no_network": True,
    "load_dtd": False,
    "dtd_validation": False,
    "huge_tree": False,
}
_PROLOGUE = re.compile(rb"(?:\s+|<\?.*?\?>|<!--.*?-->)", re.DOTALL)
_DOCTYPE = re.compile(rb"""<!DOCTYPE\s+[^\s\[>]+\s*(?:(?:SYSTEM|PUBLIC)(?:\s*(?:"[^"]*"|'[^']*')){1,2}\s*)?""")
_REFERENCE = re.compile(rb"&([^\s&;<>#\"']{1,80});")
_PARAMETER = re.compile(rb"<!ENTITY\s+%\s+(\S{1,80})\s")
_UNDECLARED = re.compile(r"Entity '(.+)' not defined")
_PREDEFINED = frozenset({"lt", "gt", "amp", "quot", "apos"})


class Unreadable(Exception):
    """A document that is not well-formed, or breaks a limit of the parser."""


class _Nothing:
    """A parser target that keeps nothing: whether a file is well-formed costs no memory."""

    def start(self, tag: str, attributes: object) -> None: ...
    def end(self, tag: str) -> None: ...
    def data(self, data: str) -> None: ...
    def comment(self, text: str) -> None: ...
    def pi(self, target: str, data: str | None = None) -> None: ...

    def close(self) -> bool:
        return True


def problem_of(pieces: Iterable[bytes]) -> UnicodeDecodeError | etree.LxmlError | None:
    """Why a document is not well-formed; None if it is. A prefix that it does not declare is no reason.

    :param pieces: the document in UTF-8, as `XmlEncoding.utf8` gives it
    """
    parser = etree.XMLParser(target=_Nothing(), resolve_entities=False, **_SAFE)
    try:
        for piece in pieces:
            parser.feed(piece)
        parser.close()
    except (UnicodeDecodeError, etree.LxmlError) as problem:
        return problem
    return None


def parsed(utf8: bytes) -> tuple[Any, str]:
    """The tree of a document, and a status: `success`, or `bad-namespaces` or `bad-entities`, if it is not all there.

    :raises Unreadable: if it is not well-formed
    """
    tree, status = _parse(utf8)
    used = {name.decode("utf-8", "replace") for name in _REFERENCE.findall(utf8)} - _PREDEFINED
    if not used:
        return tree, status
    whole = _with_entities(_with_declarations(utf8, tree, used)) if len(used) <= MAX_ENTITIES else None
    return (tree, "bad-entities") if whole is None else (whole, status)


def _parse(utf8: bytes) -> tuple[Any, str]:
    """A tree in which references to entities stay what they are."""
    try:
        return etree.fromstring(utf8, etree.XMLParser(resolve_entities=False, **_SAFE)).getroottree(), "success"
    except etree.LxmlError as problem:
        if problem_of([utf8]) is not None:
            raise Unreadable from problem
    # An ID that is no name, such as xml:id="0", a prefix that is not declared, or a limit of the tree. Not collecting IDs
    # (collect_ids=False) is no way out: libxml2 then loads the document type.
    parser = etree.XMLParser(resolve_entities=False, recover=True, **_SAFE)
    root = etree.fromstring(utf8, parser)
    problems = list(parser.error_log)
    if root is None or any(problem.level == etree.ErrorLevels.FATAL for problem in problems):
        raise Unreadable
    named = (name for element in root.iter(etree.Element) for name in (element.tag, *element.attrib))
    if any(":" in name.rpartition("}")[2] for name in named):
        return root.getroottree(), "bad-namespaces"
    if len(problems) >= MAX_LOG:  # and perhaps more
        raise Unreadable
    return root.getroottree(), "success"


def _with_entities(utf8: bytes) -> Any:
    """A tree with the text of the entities in it; None if one is missing, or they grow too much."""
    parser = etree.XMLParser(resolve_entities="internal", recover=True, **_SAFE)
    try:
        root = etree.fromstring(utf8, parser)
    except etree.LxmlError:
        return None
    # A parameter entity is text of the document type: lxml leaves it out, and what it would have declared is missing.
    parameters = {name.decode("utf-8", "replace") for name in _PARAMETER.findall(utf8)}
    problems = list(parser.error_log)
    missing = (problem for problem in problems if problem.type == etree.ErrorTypes.WAR_UNDECLARED_ENTITY)
    names = {found[1] if (found := _UNDECLARED.search(problem.message)) else "" for problem in missing}
    is_fatal = any(problem.level == etree.ErrorLevels.FATAL for problem in problems)
    is_whole = root is not None and not is_fatal and len(problems) < MAX_LOG and names <= parameters
    return root.getroottree() if is_whole else None


def _with_declarations(utf8: bytes, tree: Any, used: set[str]) -> bytes:
    """The document with declarations of the entities that it uses and does not declare itself.

    Those of the sets that JATS and others refer to are characters, by the names that HTML took from them. Of any other,
    and of one that is in another file, the reference is the text.
    """
    position = 0
    while found := _PROLOGUE.match(utf8, position):
        position = found.end()
    doctype = _DOCTYPE.match(utf8, position)
    subset = tree.docinfo.internalDTD
    if doctype is None:
        return utf8
    declared = {} if subset is None else {entity.name: entity.content for entity in subset.iterentities()}
    declarations = [
        f'<!ENTITY {name} "{_replacement(name, is_declared=name in declared)}">'
        for name in sorted(used)
        if declared.get(name) is None
    ]
    inside = "".join(declarations).encode()
    end = doctype.end()
    if utf8[end : end + 1] == b"[":
        return utf8[: end + 1] + inside + utf8[end + 1 :]
    return utf8[:end] + b" [" + inside + b"]" + utf8[end:]


def _replacement(name: str, *, is_declared: bool) -> str:
    character = None if is_declared else html5.get(f"{name};")
    return "".join(f"&#38;#{ord(part)};" for part in character or f"&{name};")
