"""A table cell of any type that SQLite has: as JSON, and as the key of its result."""

from __future__ import annotations

import base64
import math
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from ..sqlite import json_bytes


def json_of_cell(cell: Any) -> Any:
    """A cell as JSON. Bytes are `{"$base64": true, "encoded": …}` as in Datasette's JSON. Infinity, which JSON cannot
    write, is the text that SQLite casts it to: `Inf` or `-Inf`."""
    if isinstance(cell, float) and not math.isfinite(cell):
        return str(cell).title()
    return json_bytes(cell) if isinstance(cell, (bytes, bytearray, memoryview)) else cell


def cell_of_json(value: Any) -> Any:
    """The cell of a JSON value, text for infinity apart. Raises ValueError for what no cell can hold."""
    match value:
        case {"$base64": True, "encoded": str(encoded), **other} if not other:
            return base64.b64decode(encoded, validate=True)
        case bool() | list() | dict():
            is_cell = False
        case int():
            is_cell = -(2**63) <= value < 2**63
        case _:
            is_cell = value == value
    if not is_cell:
        raise ValueError('not a cell: text, a number, null, or {"$base64": true, "encoded": "…"}')
    return value


Cell = Annotated[
    Any,
    PlainValidator(cell_of_json),
    PlainSerializer(json_of_cell),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": ["string", "number", "null"]},
                {
                    "type": "object",
                    "properties": {"$base64": {"const": True}, "encoded": {"type": "string"}},
                    "required": ["$base64", "encoded"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
"""Text, bytes, an int, a float or None."""


def cell_key(cell: Any) -> str | bytes | int | float | None:
    """What keys the result of a cell, to be bound as `cast(? as text)`; None for a blank cell, which has no result.

    SQLite casts numbers itself, since it writes some floats as Python does not. Text that is not Unicode (a cell of
    invalid UTF-8 arrives with lone surrogates) is bound as its bytes.
    """
    if cell is None or isinstance(cell, (int, float)):
        return cell
    key: str | bytes = cell if isinstance(cell, str) else bytes(cell)
    if not key.strip():
        return None
    return key if isinstance(key, bytes) else _bindable(key)


def _bindable(text: str) -> str | bytes:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        pass
    else:
        return text
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
