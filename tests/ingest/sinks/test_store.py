"""A store keeps files by kind and SHA-1, in a folder as in a bucket."""

from __future__ import annotations

import asyncio
import hashlib
import os
import pathlib
from typing import Any

import pytest

from datasette_ingest.ingest.errors import StoreError
from datasette_ingest.ingest.files import JATS, PDF, TEXT, XML
from datasette_ingest.ingest.http.body import Body
from datasette_ingest.ingest.settings import CrawlSettings
from datasette_ingest.ingest.sinks import KeptFiles, store_of
from datasette_ingest.ingest.sinks.layout import StoredFile

from ..origin import PDF as CONTENT
from .conftest import content, listed, secret, spilled

MIB = 2**20


def sha1(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


SHA1 = sha1(CONTENT)


async def test_a_file_is_kept_under_its_kind_and_its_sha1(kept: KeptFiles) -> None:
    await kept.prepare()
    assert await kept.find("body", SHA1, PDF) is None and await kept.find("body", SHA1) is None
    await kept.keep("body", SHA1, PDF, Body(pieces=[CONTENT], size=len(CONTENT)))
    await kept.keep("text", SHA1, TEXT, b"words")
    folder = f"{SHA1[:2]}/{SHA1[2:4]}/{SHA1}"
    assert await listed(kept) == {f"body/{folder}.pdf": len(CONTENT), f"text/{folder}.txt": 5}
    assert await content(kept, "body", SHA1) == CONTENT
    assert await content(kept, "body", SHA1, 3, 9) == CONTENT[3:9]
    assert await content(kept, "body", SHA1, 3, 10**9) == CONTENT[3:]
    assert await content(kept, "thumbnail", SHA1) is None


async def test_large_bodies_go_there_and_come_back_a_piece_at_a_time(kept: KeptFiles) -> None:
    data = os.urandom(MIB) * 20 + b"end"
    body = await spilled(data)
    await kept.keep("body", sha1(data), "application/zip", body)
    body.close()
    file = await kept.find("body", sha1(data), "application/zip")
    assert file is not None
    pieces = [piece async for piece in kept.read(file)]
    assert max(map(len, pieces)) <= 4 * MIB and sha1(b"".join(pieces)) == sha1(data)


async def test_a_body_that_is_there_is_not_written_again(kept: KeptFiles) -> None:
    other = bytes(len(CONTENT))
    await kept.keep("body", SHA1, PDF, CONTENT)
    await kept.keep("body", SHA1, PDF, other)
    assert await content(kept, "body", SHA1) == CONTENT, "its SHA-1 says what it holds"


async def test_what_is_there_with_another_size_is_replaced(kept: KeptFiles) -> None:
    for before in (b"", b"a" * (len(CONTENT) + 1)):
        await kept.keep("body", SHA1, PDF, before)
        assert await content(kept, "body", SHA1) == before
    await kept.keep("body", SHA1, PDF, CONTENT)
    assert await content(kept, "body", SHA1) == CONTENT


async def test_what_was_made_of_a_file_is_replaced_by_what_a_later_version_makes_of_it(kept: KeptFiles) -> None:
    for made in (b"<TEI>1</TEI>", b"<TEI>2</TEI>", b"<TEI>2</TEI>"):
        await kept.keep("tei", SHA1, XML, made)
        assert await content(kept, "tei", SHA1) == made


async def test_many_may_keep_one_file_at_once(kept: KeptFiles, settings: CrawlSettings) -> None:
    stores = [kept, *filter(None, [store_of(settings)])]
    await asyncio.gather(*(store.keep("body", SHA1, PDF, CONTENT) for store in stores * 8))
    assert list((await listed(kept)).values()) == [len(CONTENT)]
    assert await content(kept, "body", SHA1) == CONTENT


async def test_a_file_is_found_under_the_name_that_another_version_gave_it(kept: KeptFiles) -> None:
    await kept.keep("body", SHA1, XML, CONTENT)
    file = await kept.find("body", SHA1, JATS)
    assert file is not None and file.key.endswith(f"{SHA1}.xml") and file.size == len(CONTENT)


async def test_an_empty_file_is_kept_and_read(kept: KeptFiles) -> None:
    await kept.keep("body", sha1(b""), "application/octet-stream", b"")
    assert await content(kept, "body", sha1(b"")) == b""
    assert await listed(kept) == {f"body/da/39/{sha1(b'')}": 0}


@pytest.mark.parametrize("name", ["", "../../etc/passwd", SHA1[:-1], SHA1 + "0", SHA1.upper(), "g" * 40, SHA1 + "\n"])
async def test_what_is_no_sha1_names_nothing(kept: KeptFiles, name: str) -> None:
    for kind, sha1hex in (("body", name), (name, SHA1)):
        with pytest.raises(ValueError, match="a store keeps nothing under"):
            await kept.keep(kind, sha1hex, PDF, CONTENT)
        with pytest.raises(ValueError, match="a store keeps nothing under"):
            await kept.find(kind, sha1hex)


async def test_a_file_that_is_gone_or_shorter_when_it_is_read_is_said(kept: KeptFiles) -> None:
    await kept.keep("body", SHA1, PDF, CONTENT)
    file = await kept.find("body", SHA1)
    assert file is not None
    for wrong in (StoredFile(file.key, file.size + 5, 0), StoredFile(file.key.replace(".pdf", ".xml"), 5, 0)):
        with pytest.raises(StoreError, match=r"The (file|store) .* (is shorter than|cannot be read: )"):
            [piece async for piece in kept.read(wrong)]


@pytest.mark.parametrize("name", ["a b", "50%", "%41", "größe", "日本", "a#b?c", "~x", "a'b\"c", "[x]", "a//b"])
async def test_a_folder_and_a_prefix_may_have_any_name(
    name: str, settings: CrawlSettings, tmp_path: pathlib.Path
) -> None:
    is_folder = settings.store == str(tmp_path / "store")
    if is_folder:
        (tmp_path / name).mkdir(parents=True)
        store = CrawlSettings(store=f"{tmp_path}/{name}/")
    else:
        service = {
            field: getattr(settings, field) for field in ("store_endpoint", "store_access_key", "store_secret_key")
        }
        store = CrawlSettings(store=f"{settings.store}/{name}/", **service)
    kept = store_of(store)
    assert kept is not None
    await kept.prepare()
    await kept.keep("body", SHA1, PDF, CONTENT)
    key = f"body/{SHA1[:2]}/{SHA1[2:4]}/{SHA1}.pdf"
    assert await listed(kept) == {key: len(CONTENT)} and await content(kept, "body", SHA1) == CONTENT
    if is_folder:
        assert (tmp_path / name / key).read_bytes() == CONTENT
    else:
        above = store_of(settings)
        assert above is not None
        assert await listed(above) == {f"{name.replace('//', '/')}/{key}": len(CONTENT)}


def settings_of(service: dict[str, Any], **more: Any) -> CrawlSettings:
    return CrawlSettings(**{"store": "s3://bodies/x", **secret(service), **secret(more)})


async def test_a_service_that_refuses_our_keys_waits_for_a_person(s3_service: dict[str, Any]) -> None:
    store = store_of(settings_of(s3_service, store_secret_key="another"))
    assert store is not None
    for attempt in (store.prepare(), store.keep("body", SHA1, PDF, CONTENT), store.find("body", SHA1, PDF)):
        with pytest.raises(StoreError, match=r"The store s3://bodies/x cannot be (read|written): ") as caught:
            await attempt
        assert not caught.value.passes and "another" not in str(caught.value) and "\n" not in str(caught.value)


async def test_keys_and_address_come_from_the_environment_as_for_other_tools(
    s3_service: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_service["store_access_key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_service["store_secret_key"])
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.setenv(name, s3_service["store_endpoint"])
        store = store_of(CrawlSettings(store=f"s3://bodies/{tmp_path.name}"))
        assert store is not None
        await store.keep("body", SHA1, PDF, CONTENT)
        assert await content(store, "body", SHA1) == CONTENT
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # the next one comes first
