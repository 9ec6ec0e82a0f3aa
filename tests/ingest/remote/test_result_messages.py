"""What a result's message holds beside its JSON elsewhere: the words of the file, the picture of its first page."""

from __future__ import annotations

import base64
import json
import random
import zlib
from dataclasses import replace

import pytest

from datasette_ingest.ingest.facts import FullText, PdfMeta, Thumbnail
from datasette_ingest.ingest.load.results import LoadedResult
from datasette_ingest.ingest.model import IngestResult
from datasette_ingest.ingest.remote.messages import MAX_TEXT_BYTES, ResultMessage
from datasette_ingest.ingest.remote.persist import read_record
from datasette_ingest.ingest.remote.record import Message, Partition, Record
from datasette_ingest.ingest.remote.topics import MAX_RESULT_BYTES

SHA1 = "aa" * 20
PICTURE = Thumbnail(SHA1, "image/png", 3, 4, bytes(range(256)))
BARE = IngestResult.from_json(
    {
        "request": {"ingest_type": "pdf", "base_url": "https://a.example/", "source": "s", "source_id": "1"},
        "hit": True,
        "status": "success",
        "updated": "2026-05-01T00:00:00Z",
    }
)


def read(message: Message) -> LoadedResult:
    found = read_record(Record(Partition("t", 0), 0, message.key, message.value, message.headers))
    assert not isinstance(found, str), found
    return found[0]


@pytest.mark.parametrize("words", ["", 'Ünicode ☃ \x00 \U0001f600 "quoted" \\ words', "\ufffd\u2028"])
def test_words_and_picture_come_back_as_they_were(words: str) -> None:
    given = replace(BARE, fulltext=FullText(SHA1, words.replace("\0", "")), thumbnail=PICTURE, pdf_meta=PdfMeta(SHA1))
    found = read(ResultMessage(given, "t1").encode()).result
    assert (found.fulltext, found.thumbnail, found.pdf_meta) == (given.fulltext, PICTURE, given.pdf_meta)
    assert found.to_json() == given.to_json()


def random_words(size: int) -> str:
    """A text that compression makes little shorter."""
    return base64.b64encode(random.Random(1).randbytes(size)).decode()


def test_words_that_have_no_room_are_compressed() -> None:
    long = replace(BARE, fulltext=FullText(SHA1, "Über alle Maßen lang. " * 450_000), thumbnail=PICTURE)
    message = ResultMessage(long).encode()
    assert len(message.value or b"") < 1_000_000
    found = read(message).result
    assert (found.fulltext, found.thumbnail) == (long.fulltext, PICTURE)


def test_what_has_no_room_at_all_is_left_out_and_the_rest_is_sent() -> None:
    long = replace(BARE, fulltext=FullText(SHA1, random_words(2 * MAX_RESULT_BYTES)), thumbnail=PICTURE)
    found = read(ResultMessage(long).encode()).result
    assert (found.fulltext, found.thumbnail) == (None, PICTURE)
    large = replace(long, fulltext=FullText(SHA1, "x"), thumbnail=replace(PICTURE, content=b"x" * MAX_RESULT_BYTES))
    found = read(ResultMessage(large).encode()).result
    assert (found.fulltext, found.thumbnail) == (large.fulltext, None)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("not base64!", "cannot be unpacked"),
        (3, "cannot be unpacked"),
        (base64.b64encode(b"not compressed").decode(), "cannot be unpacked"),
        (base64.b64encode(zlib.compress(b"\xff")).decode(), "cannot be unpacked"),
        (base64.b64encode(zlib.compress(b"words")[:-5]).decode(), "is not whole"),
        (base64.b64encode(zlib.compress(bytes(MAX_TEXT_BYTES + 1))).decode(), "more than 67,108,864 bytes"),
    ],
)
def test_words_that_cannot_be_unpacked_are_a_reason(content: object, reason: str) -> None:
    document = {**BARE.to_json(), "fulltext": {"sha1hex": SHA1, "zlib": content}}
    found = read_record(Record(Partition("t", 0), 0, b"k", json.dumps(document).encode()))
    assert isinstance(found, str) and reason in found


@pytest.mark.parametrize("content", ["not base64!", None, 3])
def test_a_picture_that_cannot_be_read_is_a_reason(content: object) -> None:
    document = {**BARE.to_json(), "thumbnail": {"sha1hex": SHA1, "content": content}}
    found = read_record(Record(Partition("t", 0), 0, b"k", json.dumps(document).encode()))
    assert found == "the content of its thumbnail is not base64"
