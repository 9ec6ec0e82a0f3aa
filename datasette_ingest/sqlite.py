"""SQLite for all parts of the package: names, columns, times, values as JSON."""

from __future__ import annotations

import base64
import sqlite3
from datetime import datetime, timezone
from typing import Any

SHADOW_PREFIX = "_enrichments_"
"""Begins the name of the table that holds the results of the table whose name follows."""

# ---- names and columns -----------------------------------------------------------------------------------------

_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def quote(name: str) -> str:
    """An identifier for use in SQL."""
    return '"' + name.replace('"', '""') + '"'


def fold(name: str) -> str:
    """A name as SQLite compares it: ASCII letters in lower case, other letters as they are."""
    return name.translate(_ASCII_LOWER)


def columns(conn: sqlite3.Connection, table: str, *, hidden: bool = False) -> list[str]:
    """The columns of a table or view in their order, generated ones included; none where it does not exist.

    :param hidden: also those of a virtual table that `select *` leaves out
    """
    sql = "select name from pragma_table_xinfo(?)" + ("" if hidden else " where hidden != 1")
    return [row[0] for row in conn.execute(sql, [table])]


# ---- times -----------------------------------------------------------------------------------------------------

_NO_PUNCTUATION = str.maketrans("", "", "-T:")


def iso(seconds: float) -> str:
    """Seconds since 1970 as `2026-11-30T13:36:00Z`; fractions are kept to the millisecond where there are any."""
    moment = datetime.fromtimestamp(round(seconds, 3), timezone.utc)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")


def stamp(seconds: float) -> str:
    """`iso` always with milliseconds, so that such texts compare as their times do."""
    text = iso(seconds)
    return text if "." in text else text.replace("Z", ".000Z")


def from_iso(text: str) -> float:
    """Seconds since 1970 of an ISO 8601 time; without a zone it is UTC.

    :raises ValueError: for other text
    """
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return moment.timestamp()


def iso_utc(moment: datetime) -> str:
    """`2026-11-30T13:42:56Z`: whole seconds, the form of every time in the tables of results but for terminal_dt."""
    return moment.astimezone(timezone.utc).isoformat()[:19] + "Z"


def digits14(moment: datetime) -> str:
    """`20261130134256`: the web archives' form of a time."""
    return moment.astimezone(timezone.utc).isoformat()[:19].translate(_NO_PUNCTUATION)


# ---- values as JSON --------------------------------------------------------------------------------------------


def json_cell(value: Any) -> Any:
    """A cell as JSON: bytes in Datasette's `{"$base64": true, "encoded": …}`, everything else as it is."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$base64": True, "encoded": base64.b64encode(bytes(value)).decode("ascii")}
    return value
