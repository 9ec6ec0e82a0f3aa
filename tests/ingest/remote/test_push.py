"""Pending requests go to the fleet, each once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from datasette_ingest.ingest.model import IngestRequest
from datasette_ingest.ingest.remote.client import Brokers
from datasette_ingest.ingest.remote.messages import RequestMessage
from datasette_ingest.ingest.remote.push import PAGE, Push
from datasette_ingest.ingest.remote.settings import KafkaSettings
from datasette_ingest.ingest.remote.topics import topics_of
from datasette_ingest.ingest.store.requests import insert_rows

from .brokers import Broker
from .test_persist import Database, result, send

pytestmark = pytest.mark.slow

CREATED = "2026-05-01T00:00:00Z"


def load(database: Database, *urls: str, source: str = "s", more: str | None = None) -> None:
    insert_rows(database.conn, [("pdf", url, source, "1", "me", CREATED, None, more) for url in urls])


async def push(database: Database, kafka: KafkaSettings, **how: Any) -> dict[str, int]:
    given = {
        "read": database.read,
        "write": database.write,
        "doi_resolver": "https://doi.org/",
        "say": database.said.append,
    }
    work = Push(kafka, **{**given, **how})
    await work.run(asyncio.Event())
    database.said += work.refused
    return {name: number for name, number in work.counts.items() if number}


async def sent(kafka: KafkaSettings) -> list[tuple[bytes | None, IngestRequest]]:
    """(key, request) of all messages on the topic."""
    brokers, found = Brokers(kafka), []
    async with brokers.consumer([topics_of(kafka).requests.name]) as consumer:
        ends = await consumer.ends()
        while sum([await consumer.position(each) for each in ends]) < sum(ends.values()):
            records = await consumer.poll(seconds=0.2, most=1000)
            found += [(record.key, RequestMessage.decode(record).request) for record in records]
    return found


async def test_each_pending_request_is_sent_once_whatever_its_cell_is(broker: Broker) -> None:
    kafka, database = broker.settings(), Database()
    load(database, "https://a.example/1", "10.1000/xyz", "no link", more='{"ext_ids": {"doi": "10.1/x"}}')
    assert await push(database, kafka) == {"sent": 3}
    assert await push(database, kafka) == {}
    found = await sent(kafka)
    assert sorted((key, request.base_url) for key, request in found) == [
        (b"-", "no link"),
        (b"a.example", "https://a.example/1"),
        (b"doi.org", "10.1000/xyz"),
    ]
    assert {request.ext_ids["doi"] for _, request in found if request.ext_ids} == {"10.1/x"}
    assert await push(database, kafka, again=True, clock=lambda: 2e9) == {"sent": 3}


async def test_requests_for_one_url_are_one_message_unless_they_expect_another_file(broker: Broker) -> None:
    kafka, database = broker.settings(), Database()
    for number in range(3):
        load(database, "https://a.example/1", source=f"s{number}")
    load(database, "https://a.example/1", source="x", more='{"expect_hash": {"sha1": "0"}}')
    assert await push(database, kafka) == {"sent": 2, "shared": 2}
    assert database.rows("select count(*) from ingest_request where pushed is null") == [(0,)]


async def test_what_was_answered_is_not_sent_and_a_miss_is_again_when_it_is_due(broker: Broker) -> None:
    kafka, database = broker.settings(), Database()
    load(database, *(f"https://a.example/{number}" for number in (1, 2)))
    await send(kafka, result(1), result(2, "gateway-timeout"))
    await database.persist(kafka)
    [(due,)] = database.rows("select next_try from ingest_file_result where hit = 0")
    assert due > "2026-05-01"
    assert await push(database, kafka, clock=lambda: 1.777e9) == {}  # April 2026
    assert await push(database, kafka, clock=lambda: 1.78e9) == {"sent": 1}
    assert await push(database, kafka, clock=lambda: 1.79e9) == {}  # September
    await send(kafka, {**result(2, "gateway-timeout"), "updated": "2026-10-01T00:00:00Z"})
    await database.persist(kafka)
    assert await push(database, kafka, clock=lambda: 1.9e9) == {"sent": 1}


async def test_killed_between_sending_and_the_mark_a_page_is_sent_twice_and_no_more(broker: Broker) -> None:
    kafka, database = broker.settings(), Database()
    load(database, *(f"https://a.example/{number}" for number in range(PAGE + 20)))

    async def die(fn: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await push(database, kafka, write=die)
    assert await push(database, kafka) == {"sent": PAGE + 20}
    urls = [request.base_url for _, request in await sent(kafka)]
    assert len(urls) == PAGE + PAGE + 20 and len(set(urls)) == PAGE + 20


async def test_what_cannot_be_sent_is_said_and_the_rest_goes_on(broker: Broker) -> None:
    kafka, database = broker.settings(), Database()
    load(database, "https://a.example/1", more="[1]")
    load(database, "https://a.example/2", more='{"edit_extra": {"note": "%s"}}' % ("x" * 2**20))
    load(database, "https://a.example/2", source="t", more='{"edit_extra": {}}')
    load(database, "https://a.example/3")
    assert await push(database, kafka) == {"sent": 1, "refused": 2}
    assert database.rows("select base_url from ingest_request where pushed is not null") == [("https://a.example/3",)]
    assert database.said == [
        "https://a.example/1: its column request cannot be read: the column request holds JSON that is no object",
        "https://a.example/2: its JSON is longer than 1,048,576 bytes",
    ]


async def test_a_limit_holds_back_the_rest(broker: Broker) -> None:
    kafka, database = broker.settings(), Database()
    load(database, *(f"https://a.example/{number}" for number in range(5)))
    assert await push(database, kafka, limit=2) == {"sent": 2}
    assert await push(database, kafka) == {"sent": 3}
