"""The topics of a fleet: their names, and how they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .parking import WAITS
from .settings import KafkaSettings

MIB = 2**20
MAX_REQUEST_BYTES = MIB
"""Longest request that is read. A longer one goes to the dead topic."""
MAX_RESULT_BYTES = 8 * MIB
"""Longest message that we send, before compression: a result with the list of a dataset's files, or a document."""
RESULT_DAYS = 90
"""How long results are kept where we make their topic."""

_FOREVER = {"retention.ms": "-1", "retention.bytes": "-1"}
_COMPACTED = {"cleanup.policy": "compact"}


@dataclass(frozen=True)
class Topic:
    """A topic, and the settings that it gets where we make it."""

    name: str
    partitions: int
    config: Mapping[str, str]


@dataclass(frozen=True)
class Topics:
    """The topics of one fleet."""

    requests: Topic
    """Requests, keyed by the host that is asked next. Kept for ever, since a request that is deleted is never answered."""
    results: Topic
    """Results, keyed by the URL of their request."""
    later: Topic
    """Requests that wait, a partition for each length of wait (`parking.WAITS`)."""
    open: Topic
    """What workers have begun: for each partition of the requests one of the same number, of which the last message
    counts (`takeover.Note`)."""
    dead: Topic
    """What cannot be read or answered, with the reason."""
    xml_doc: Topic
    """XML documents, keyed by the SHA-1 of the original."""

    @property
    def of_worker(self) -> tuple[Topic, ...]:
        """Those that a worker needs."""
        return self.requests, self.results, self.later, self.open, self.dead


def topics_of(kafka: KafkaSettings) -> Topics:
    """The topics that the setting names."""

    def topic(name: str, partitions: int, max_bytes: int, config: Mapping[str, str]) -> Topic:
        limits = {"max.message.bytes": str(max_bytes + MIB), "compression.type": "producer"}
        return Topic(f"{kafka.prefix}-{kafka.env}.{name}", partitions, {**config, **limits})

    in_days = {"retention.ms": str(RESULT_DAYS * 24 * 3600 * 1000), "retention.bytes": "-1"}
    return Topics(
        requests=topic("ingest-file-requests", kafka.partitions, MAX_REQUEST_BYTES, _FOREVER),
        results=topic("ingest-file-results", kafka.partitions, MAX_RESULT_BYTES, in_days),
        later=topic("ingest-file-later", len(WAITS), MAX_REQUEST_BYTES, _FOREVER),
        open=topic("ingest-file-open", kafka.partitions, MAX_REQUEST_BYTES, _COMPACTED),
        dead=topic("ingest-file-dead", 1, MAX_REQUEST_BYTES, _FOREVER),
        xml_doc=topic("xml-doc", kafka.partitions, MAX_RESULT_BYTES, _COMPACTED),
    )
