"""Facts: what is known about one body. Each is a part of the result's JSON."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from .json_object import IfKnown, JsonObject, Md5Hex, Sha1Hex, Sha256Hex


@dataclass(frozen=True, slots=True)
class FileMeta(JsonObject):
    """Identity of a body after transfer and content decoding."""

    sha1hex: Sha1Hex
    sha256hex: Sha256Hex
    md5hex: Md5Hex
    size_bytes: int
    mimetype: str
    """By content, not by label."""

    @property
    def digests(self) -> dict[str, str]:
        """Hex digests by the names that `model.digest_name` gives."""
        return {"md5": self.md5hex, "sha1": self.sha1hex, "sha256": self.sha256hex}


@dataclass(frozen=True, slots=True)
class HtmlMeta(JsonObject):
    """A page and the work that it describes: the page that is a hit, or the one that led to it."""

    sha1hex: Sha1Hex
    """Of the page's own body."""
    scope: IfKnown[str] = None
    """What the page is: `article`, `landing-page`, …, or the status slug of what was served instead. Left out if only
    its head was read."""
    word_count: IfKnown[int] = None
    """Words of its own text, without navigation. Left out if only its head was read."""
    biblio: Annotated[Mapping[str, Any], Field(exclude_if=operator.not_)] = field(default_factory=dict)
    """Bibliographic facts, as Biblio.to_json gives them."""
    status: str = "success"
    """How reading the page ended."""
