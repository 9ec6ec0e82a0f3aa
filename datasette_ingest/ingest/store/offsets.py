"""_enrichment_topic_offset: how far the topics of a fleet were read into this database."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from typing import NamedTuple

TABLE = "_enrichment_topic_offset"

_ADVANCE = f"""
insert into {TABLE} (reader, topic, partition, next_offset, mark) values (?, ?, ?, ?, ?)
on conflict do update set next_offset = excluded.next_offset, mark = excluded.mark
  where excluded.next_offset > next_offset
"""


class Place(NamedTuple):
    """How far a partition was read: the offset of the next message, and a mark of the one before it, by which a topic that
    was made anew is told from the one that was read."""

    next: int
    mark: str | None = None


def places(conn: sqlite3.Connection, reader: str, topic: str) -> dict[int, Place]:
    """Partition -> how far this reader has read it. The table exists."""
    rows = conn.execute(
        f"select partition, next_offset, mark from {TABLE} where reader = ? and topic = ?", [reader, topic]
    )
    return {number: Place(offset, mark) for number, offset, mark in rows}


def advance(conn: sqlite3.Connection, reader: str, topic: str, read: Mapping[int, Place]) -> None:
    """Note how far the reader is. What another process has read further stays."""
    conn.executemany(_ADVANCE, [(reader, topic, number, place.next, place.mark) for number, place in read.items()])


def forget(conn: sqlite3.Connection, reader: str, topic: str, partitions: Collection[int]) -> None:
    """Forget how far these were read: the topic is another one than then."""
    sql = f"delete from {TABLE} where reader = ? and topic = ? and partition = ?"
    conn.executemany(sql, [(reader, topic, number) for number in partitions])
