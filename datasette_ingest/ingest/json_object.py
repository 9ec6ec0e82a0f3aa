"""JsonObject: a frozen dataclass with one JSON form, which pydantic writes, reads and describes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter

T = TypeVar("T")
_Object = TypeVar("_Object", bound="JsonObject")

IfKnown = Annotated[T | None, Field(exclude_if=lambda value: value is None)]
"""`IfKnown[str]`: a text or None. The JSON leaves None out."""
IfAny = Annotated[tuple[T, ...], Field(exclude_if=operator.not_)]
"""`IfAny[str]`: a tuple of texts. The JSON leaves an empty one out."""

Md5Hex = Annotated[str, StringConstraints(pattern="^[0-9a-f]{32}$")]
Sha1Hex = Annotated[str, StringConstraints(pattern="^[0-9a-f]{40}$")]
Sha256Hex = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


_encode = msgspec.json.Encoder().encode


def json_text(value: Any) -> str:
    """A JSON value as text, without blanks. Several times as fast as `json.dumps`."""
    return _encode(value).decode()


adapter: Callable[..., TypeAdapter[Any]] = functools.cache(TypeAdapter)
"""What writes, reads and describes a JsonObject. It is made on first use, which takes tens of milliseconds."""


class JsonObject:
    """Base of a frozen dataclass whose fields are those of a JSON object.

    Only `from_json` checks types. Construction is the dataclass's own: the crawler makes several thousand of these
    values a second, and mypy checks its calls.
    """

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(use_attribute_docstrings=True)

    def to_json(self) -> dict[str, Any]:
        """The JSON object, as `json.dumps` takes it."""
        document: dict[str, Any] = adapter(type(self)).dump_python(self, mode="json", by_alias=True)
        return document

    @classmethod
    def from_json(cls: type[_Object], value: Any) -> _Object:
        """The value of a JSON object, as `json.loads` gives it. Keys that are no fields are ignored.

        Raises pydantic.ValidationError, a ValueError that names each wrong field.
        """
        read: _Object = adapter(cls).validate_python(value)
        return read
