"""What a result's message holds beside its JSON elsewhere: the words of the file, the picture of its first page."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from datasette_ingest.ingest.facts import FullText, PdfMeta, Thumbnail
from datasette_ingest.ingest.load.results import LoadedResult
from datasette_ingest.ingest.model import IngestResult
from datasette_ingest.ingest.remote.messages import ResultMessage
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


def test_what_has_no_room_is_left_out_and_the_rest_is_sent() -> None:
    long = replace(BARE, fulltext=FullText(SHA1, "x" * MAX_RESULT_BYTES), thumbnail=PICTURE)
    message = ResultMessage(long).encode()
    found = read(message).result
    assert (found.fulltext, found.thumbnail) == (None, PICTURE)
    large = replace(
        BARE, fulltext=FullText(SHA1, "x" * (MAX_RESULT_BYTES - 500)), thumbnail=replace(PICTURE, content=b"x" * 500)
    )
    message = ResultMessage(large).encode()
    assert len(message.value or b"") <= MAX_RESULT_BYTES
    assert read(message).result.thumbnail is None


@pytest.mark.parametrize("content", ["not base64!", None, 3])
def test_a_picture_that_cannot_be_read_is_a_reason(content: object) -> None:
    document = {**BARE.to_json(), "thumbnail": {"sha1hex": SHA1, "content": content}}
    found = read_record(Record(Partition("t", 0), 0, b"k", json.dumps(document).encode()))
    assert found == "the content of its thumbnail is not base64"
