"""Which partition a request belongs to: that of the host which is asked next, so that one worker at a time asks a host."""

from __future__ import annotations

from typing import Any

from ..cells import cell_key
from ..errors import IngestError
from ..urls import clean_cell, split

NOWHERE = "-"
"""The host of a request that asks none, since its cell is no URL. No host has this name."""


def host_of(cell: Any, doi_resolver: str) -> str:
    """The host that is asked first for a cell: for a DOI the resolver's; NOWHERE for a cell that is no URL."""
    try:
        return split(clean_cell(cell, doi_resolver=doi_resolver)).host
    except IngestError:
        return NOWHERE


def result_key(cell: Any) -> bytes:
    """What keys the results of a cell: the cell as text."""
    key = cell_key(cell)
    return key if isinstance(key, bytes) else str("" if key is None else key).encode()


def partition_of(key: bytes, partitions: int) -> int:
    """The partition that a key has by murmur2, as with Java's and aiokafka's producers.

    https://github.com/apache/kafka/blob/trunk/clients/src/main/java/org/apache/kafka/common/utils/Utils.java
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """The hash murmur2 with Kafka's seed, as an unsigned number of 32 bits."""
    factor, mask = 0x5BD1E995, 0xFFFFFFFF
    length = len(data)
    value = 0x9747B28C ^ length
    for at in range(0, length - length % 4, 4):
        part = int.from_bytes(data[at : at + 4], "little") * factor & mask
        part = (part ^ (part >> 24)) * factor & mask
        value = (value * factor & mask) ^ part
    if rest := data[length - length % 4 :]:
        value = (value ^ int.from_bytes(rest, "little")) * factor & mask
    value = (value ^ (value >> 13)) * factor & mask
    return value ^ (value >> 15)
