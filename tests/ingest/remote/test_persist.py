"""Results of a topic become rows: each once, whoever sent them, whatever happens to the reader."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from dataclasses import replace
from typing import Any

import pytest

from datasette_ingest.ingest import schema
from datasette_ingest.ingest.facts import FullText
from datasette_ingest.ingest.model import IngestResult
from datasette_ingest.ingest.remote.client import Brokers
from datasette_ingest.ingest.remote.messages import DeadLetter, ResultMessage
from datasette_ingest.ingest.remote.persist import TABLES, Persister
from datasette_ingest.ingest.remote.record import Message
from datasette_ingest.ingest.remote.settings import KafkaSettings
from datasette_ingest.ingest.remote.topics import topics_of

from .brokers import Broker

pytestmark = pytest.mark.slow


class Database:
    """A database in memory, and what was said while results were written into it."""

    def __init__(self) -> None:
        self.conn = sqlite3.connect(":memory:", isolation_level=None)
        schema.migrate(self.conn, TABLES)
        self.said: list[str] = []

    async def write(self, fn: Any) -> Any:
        self.conn.execute("begin immediate")
        try:
            found = fn(self.conn)
        except BaseException:
            self.conn.execute("rollback")
            raise
        self.conn.execute("commit")
        return found

    async def read(self, fn: Any) -> Any:
        return fn(self.conn)

    async def persist(self, kafka: KafkaSettings, **how: Any) -> dict[str, int]:
        """Read until caught up; the counts."""
        work = Persister(kafka, **{"read": self.read, "write": self.write, "say": self.said.append, **how})
        await work.run(asyncio.Event(), forever=False)
        return dict(work.counts)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.conn.execute(sql).fetchall()


async def send(kafka: KafkaSettings, *values: IngestResult | bytes | dict[str, Any], together: bool = False) -> None:
    """Send results one by one, or as many at once as a producer packs together."""
    brokers, topics = Brokers(kafka), topics_of(kafka)
    await brokers.make_topics([topics.results, topics.dead])
    messages = []
    for value in values:
        if isinstance(value, IngestResult):
            messages.append(ResultMessage(value).encode())
        else:
            messages.append(Message(b"key", value if isinstance(value, bytes) else json.dumps(value).encode()))
    async with brokers.producer() as producer:
        if together:
            await asyncio.gather(*(producer.send(topics.results.name, message) for message in messages))
            return
        for message in messages:
            await producer.send(topics.results.name, message)


def result(number: int, status: str = "success", second: int = 0, **request: Any) -> dict[str, Any]:
    return {
        "request": {"ingest_type": "pdf", "base_url": f"https://a.example/{number}", **request},
        "hit": status == "success",
        "status": status,
        "updated": f"2026-05-01T00:00:{second:02}Z",
    }


async def test_results_of_any_producer_become_rows_once(broker: Broker) -> None:
    kafka, database = broker.settings(), Database()
    theirs = {
        "request": {
            "ingest_type": "file", "base_url": "https://b.example/", "link_source": "doaj", "link_source_id": "x1",
            "ingest_request_source": "their-bot",
        },
        "hit": False,
        "status": "no-pdf-link",
        "terminal": {"terminal_url": "https://b.example/x", "terminal_dt": "20200101000000", "terminal_status_code": 200},
    }  # fmt: skip
    with_words = replace(IngestResult.from_json(result(1)), fulltext=FullText("aa" * 20, "some words"))
    await send(kafka, with_words, theirs, result(1), result(2, "gateway-timeout", 9))
    assert await database.persist(kafka) == {"read": 4, "new": 3, "known": 1, "lost": 0}
    assert await database.persist(kafka) == {"lost": 0}
    found = database.rows("select ingest_type, base_url, hit, status from ingest_file_result order by base_url")
    assert found == [
        ("pdf", "https://a.example/1", 1, "success"),
        ("pdf", "https://a.example/2", 0, "gateway-timeout"),
        ("pdf", "https://b.example/", 0, "no-pdf-link"),
    ]
    found = database.rows(
        "select text from ingest_fulltext where rowid in (select rowid from ingest_fulltext_fts('words'))"
    )
    assert found == [("some words",)]
    assert database.rows("select source, source_id, actor from ingest_request") == [("doaj", "x1", "their-bot")]
    await send(kafka, result(2, second=8))
    assert (await database.persist(kafka))["new"] == 1
    assert database.rows("select hit, error_message from ingest_file_result where base_url like '%2'") == [
        (1, "gateway-timeout")
    ]


UNREADABLE = {
    b"{nonsense": "not JSON",
    b"[1]": "object",
    b"{}": "request is missing",
    b'{"request": {"base_url": "https://a.example/", "ingest_type": "film"}, "hit": true, "status": "success"}': "film",
    b'{"request": {"base_url": " ", "ingest_type": "pdf"}, "hit": true, "status": "success"}': "blank",
    b'{"request": {"base_url": "https://a.example/"}, "hit": true, "status": "no-pdf-link"}': "hit is true",
    b'{"request": {"base_url": "https://a.example/"}, "hit": false, "status": "x", "updated": "soon"}': "no time",
    b'{"request": {"base_url": "https://a.example/"}, "hit": 3}': "hit",
}


async def test_what_cannot_be_read_goes_to_the_dead_topic_and_the_rest_goes_on(broker: Broker) -> None:
    kafka, database = broker.settings(partitions=1), Database()
    await send(kafka, *UNREADABLE, result(1))
    counts = await database.persist(kafka)
    assert (counts["unreadable"], counts["new"], counts["read"]) == (len(UNREADABLE), 1, len(UNREADABLE) + 1)
    async with Brokers(kafka).consumer([topics_of(kafka).dead.name]) as consumer:
        letters: list[DeadLetter] = []
        while len(letters) < len(UNREADABLE):
            letters += [DeadLetter.decode(each) for each in await consumer.poll(seconds=0.2, most=100)]
    for letter, (value, reason) in zip(letters, UNREADABLE.items(), strict=True):
        assert reason in letter.reason
        assert letter.message == value.decode()
    assert (await database.persist(kafka)).get("read") is None


async def test_a_transaction_that_fails_keeps_neither_rows_nor_offsets(broker: Broker) -> None:
    kafka, database = broker.settings(), Database()
    await send(kafka, *(result(number) for number in range(20)), together=True)

    async def die(fn: Any) -> Any:
        def then_die(conn: sqlite3.Connection) -> None:
            fn(conn)
            raise ZeroDivisionError

        return await database.write(then_die)

    with pytest.raises(ZeroDivisionError):
        await database.persist(kafka, write=die)
    assert database.rows("select count(*) from ingest_file_result") == [(0,)]
    assert database.rows("select count(*) from _enrichment_topic_offset") == [(0,)]
    assert (await database.persist(kafka))["new"] == 20
    assert await database.persist(kafka) == {"lost": 0}
    assert database.said == []


async def test_a_topic_that_was_made_anew_is_read_from_its_beginning_and_said(broker: Broker) -> None:
    """A shorter one is known by its end, a longer one by the message before the stored place."""
    for number in (1, 5):
        kafka, database = broker.settings(partitions=1), Database()
        await send(kafka, result(1), result(2), result(3))
        await database.persist(kafka)
        other = broker.settings(partitions=1)
        database.conn.execute("update _enrichment_topic_offset set topic = ?", [topics_of(other).results.name])
        await send(other, *(result(10 + each) for each in range(number)))
        assert (await database.persist(other))["new"] == number
        assert "made anew" in database.said[0] and len(database.said) == 1
        assert await database.persist(other) == {"lost": 0}


async def test_messages_that_were_deleted_unread_are_said(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka, database = broker.settings(partitions=1), Database()
    await send(kafka, *(result(number) for number in range(10)))
    await database.persist(kafka)
    await send(kafka, *(result(number) for number in range(10, 20)))
    from datasette_ingest.ingest.remote.client import Consumer

    real = Consumer.beginnings

    async def later(self: Consumer) -> dict[Any, int]:
        return dict.fromkeys(await real(self), 15)

    monkeypatch.setattr(Consumer, "beginnings", later)
    counts = await database.persist(kafka)
    assert (counts["lost"], counts["read"]) == (5, 5)
    assert "5 messages before offset 15 were deleted before they were read" in database.said[0]
