"""Names in a store: `{kind}/{aa}/{bb}/{sha1}{.ext}`, where aa and bb are the first two bytes of the SHA-1 in hex. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..files import EXTENSIONS

BODY = "body"
"""The kind of a file as it was found. It has the SHA-1 that names it; every other kind was made of it."""
KINDS = (BODY, "xml", "tei", "text", "thumbnail")

UNFINISHED = ".part"
"""Ends the name of a file that is being written; it begins with a dot."""

_KEY = re.compile(rf"({'|'.join(KINDS)})/([0-9a-f]{{2}})/([0-9a-f]{{2}})/(\2\3[0-9a-f]{{36}})(?:\.[a-z0-9.]+)?")
_SHA1 = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class StoredFile:
    """A file of a store. `size` in bytes; `modified`: when it was written, in seconds since 1970."""

    key: str
    size: int
    modified: float


def folder_of(kind: str, sha1hex: str) -> str:
    """`body/da/39/`

    :raises ValueError: for an unknown kind, or a text that is no SHA-1 in hex
    """
    if kind not in KINDS or not _SHA1.fullmatch(sha1hex):
        raise ValueError(f"a store keeps nothing under {kind!r} and {sha1hex!r}")
    return f"{kind}/{sha1hex[:2]}/{sha1hex[2:4]}/"


def key_of(kind: str, sha1hex: str, mimetype: str) -> str:
    """`body/da/39/da39….pdf`. A type that `sniff` does not know has no extension.

    :raises ValueError: as `folder_of`
    """
    return f"{folder_of(kind, sha1hex)}{sha1hex}{EXTENSIONS.get(mimetype, '')}"


def named_by(key: str) -> tuple[str, str] | None:
    """Kind and SHA-1 of a key; None for a key that is none of a store."""
    found = _KEY.fullmatch(key)
    return None if found is None else (found[1], found[4])


def is_unfinished(key: str) -> bool:
    """Whether it is the name of a file that was being written."""
    name = key.rpartition("/")[2]
    return name.startswith(".") and name.endswith(UNFINISHED)
