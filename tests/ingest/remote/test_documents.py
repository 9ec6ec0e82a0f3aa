"""Documents of a topic are kept under the SHA-1 that is their key, before the topic is told so."""

from __future__ import annotations

import asyncio
import json
import pathlib
from typing import Any

import pytest

from datasette_ingest.ingest.errors import StoreError
from datasette_ingest.ingest.remote.client import Brokers
from datasette_ingest.ingest.remote.documents import DocumentPersister, XmlDocument
from datasette_ingest.ingest.remote.messages import DeadLetter, Unreadable
from datasette_ingest.ingest.remote.record import Message, Partition, Record
from datasette_ingest.ingest.remote.settings import KafkaSettings
from datasette_ingest.ingest.remote.topics import topics_of
from datasette_ingest.ingest.settings import CrawlSettings
from datasette_ingest.ingest.sinks import KeptFiles, store_of

from .brokers import Broker

SHA1 = "aa" * 20
XML = b"<article>\xc3\xa9</article>"


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(Partition("t", 0), 0, key, value)


@pytest.mark.parametrize(
    "value",
    [
        XML,
        json.dumps({"xml": XML.decode()}).encode(),
        json.dumps({"sha1hex": SHA1.upper(), "status": "success", "jats_xml": XML.decode()}).encode(),
        json.dumps({"key": SHA1, "tei_xml": XML.decode()}, ensure_ascii=False).encode(),
    ],
)
def test_a_document_is_read_plain_and_in_json(value: bytes) -> None:
    assert XmlDocument.read(record(SHA1.encode(), value)) == XmlDocument(SHA1, XML)


BAD: dict[str, tuple[bytes | None, bytes]] = {
    "its key is no SHA-1": (None, XML),
    "its key is no SHA-1 in hex": (b"aa", XML),
    "it says that the SHA-1 is 'bb'": (SHA1.encode(), b'{"sha1hex": "bb", "xml": "<a/>"}'),
    "it has no document": (SHA1.encode(), b'{"sha1hex": null}'),
    "not JSON": (SHA1.encode(), b"{nonsense"),
    "not well-formed XML": (SHA1.encode(), b"<a><b></a>"),
    "its document is not well-formed": (SHA1.encode(), b""),
    "well-formed XML: undefined entity": (SHA1.encode(), b"<a>&nbsp;</a>"),
}


@pytest.mark.parametrize("reason", BAD)
def test_what_can_be_checked_is_checked(reason: str) -> None:
    key, value = BAD[reason]
    with pytest.raises(Unreadable, match=reason):
        XmlDocument.read(record(key, value))


def test_entities_that_grow_without_end_are_refused() -> None:
    names = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    bomb = f'<!DOCTYPE a [<!ENTITY e0 "{"x" * 100}">{names}]><a>&e11;</a>'.encode()
    with pytest.raises(Unreadable, match="not well-formed"):
        XmlDocument.read(record(SHA1.encode(), bomb))


def store(folder: pathlib.Path) -> KeptFiles:
    made = store_of(CrawlSettings(store=str(folder)))
    assert made is not None
    return made


async def send(kafka: KafkaSettings, *messages: tuple[str, bytes | None]) -> None:
    brokers, topics = Brokers(kafka), topics_of(kafka)
    await brokers.make_topics([topics.xml_doc, topics.dead])
    async with brokers.producer() as producer:
        for key, value in messages:
            await producer.send(topics.xml_doc.name, Message(key.encode(), value))


async def persist(kafka: KafkaSettings, kept: KeptFiles) -> dict[str, int]:
    work = DocumentPersister(kafka, kept, say=lambda sentence: None)
    await work.run(asyncio.Event(), forever=False)
    return dict(work.counts)


def files(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
async def test_documents_are_kept_once_and_the_rest_is_dead(broker: Broker, tmp_path: pathlib.Path) -> None:
    kafka, folder = broker.settings(), tmp_path / "files"
    other = "bb" * 20
    await send(kafka, (SHA1, b"<old/>"), (SHA1, XML), (other, XML), ("cc" * 20, None), ("nonsense", XML))
    assert await persist(kafka, store(folder)) == {"kept": 3, "deleted": 1, "unreadable": 1}
    expected = {f"xml/{name[:2]}/{name[2:4]}/{name}.xml": XML for name in (SHA1, other)}
    assert files(folder) == expected
    assert await persist(kafka, store(folder)) == {}
    async with Brokers(kafka).consumer([topics_of(kafka).dead.name]) as consumer:
        letters = []
        while not letters:
            letters = [DeadLetter.decode(each) for each in await consumer.poll(seconds=0.2, most=10)]
    assert [letter.reason for letter in letters] == ["its key is no SHA-1 in hex"]


@pytest.mark.slow
async def test_a_store_that_fails_leaves_the_documents_on_the_topic(
    broker: Broker, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka, folder = broker.settings(), tmp_path / "files"
    await send(kafka, (SHA1, XML))

    async def refuse(self: KeptFiles, *given: Any) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(KeptFiles, "keep", refuse)
        with pytest.raises(StoreError):
            await persist(kafka, store(folder))
    assert await persist(kafka, store(folder)) == {"kept": 1}
    assert list(files(folder).values()) == [XML]
