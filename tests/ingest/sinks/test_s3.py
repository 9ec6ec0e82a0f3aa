"""A bucket's service that fails, is slow to come back, or is gone."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from datasette_ingest.ingest.errors import StoreError
from datasette_ingest.ingest.files import PDF
from datasette_ingest.ingest.http.body import Spool
from datasette_ingest.ingest.settings import CrawlSettings
from datasette_ingest.ingest.sinks import KeptFiles, s3, store_of

from ..origin import PDF as CONTENT
from ..origin import Origin, reply
from .conftest import spilled

SHA1 = hashlib.sha1(CONTENT, usedforsecurity=False).hexdigest()
PATH = f"/bodies/body/{SHA1[:2]}/{SHA1[2:4]}/{SHA1}.pdf"
BUSY = reply(b"<Error><Code>SlowDown</Code></Error>", status="503 Slow Down")
MISSING = reply(status="404 Not Found")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=2), "base": 2}
    monkeypatch.setattr(s3, "RETRIES", {"max_retries": 2, "retry_timeout": timedelta(seconds=5), "backoff": pauses})


def opened(endpoint: str) -> KeptFiles:
    keys: dict[str, Any] = {name: SecretStr("key") for name in ("store_access_key", "store_secret_key")}
    store = store_of(CrawlSettings(store="s3://bodies", store_endpoint=endpoint, **keys))
    assert store is not None
    return store


def stage(*answers: bytes) -> Any:
    """A handler that gives these answers, one a request, and then the last one again."""
    left = list(answers)

    async def answer(request: Any, writer: Any) -> None:
        writer.write(left.pop(0) if len(left) > 1 else left[0])

    return answer


async def test_a_service_that_is_busy_for_a_moment_is_asked_again() -> None:
    stored = reply(headers={"ETag": '"x"'})
    async with Origin({PATH: stage(BUSY, MISSING, BUSY, stored)}) as site:
        await opened(site.url("")).keep("body", SHA1, PDF, CONTENT)
        assert [request.method for request in site.requests] == ["HEAD", "HEAD", "PUT", "PUT"]
        assert site.requests[-1].headers["if-none-match"] == "*" and site.requests[-1].body == CONTENT


async def test_keys_of_the_settings_are_sent_without_the_session_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "another")
    async with Origin({PATH: stage(MISSING, reply(headers={"ETag": '"x"'}))}) as site:
        await opened(site.url("")).keep("body", SHA1, PDF, CONTENT)
        for request in site.requests:
            assert "Credential=key/" in request.headers["authorization"]
            assert "x-amz-security-token" not in request.headers


async def test_one_that_stays_busy_or_is_gone_may_come_back_by_itself() -> None:
    async with Origin({PATH: BUSY}) as site:
        for endpoint in (site.url(""), "http://127.0.0.1:9"):
            with pytest.raises(StoreError, match="The store s3://bodies cannot be read: ") as caught:
                await opened(endpoint).keep("body", SHA1, PDF, CONTENT)
            assert caught.value.passes and "\n" not in str(caught.value)


async def test_a_bucket_that_does_not_exist_waits_for_a_person() -> None:
    gone = reply(b"<Error><Code>NoSuchBucket</Code></Error>", status="404 Not Found", content_type="application/xml")
    async with Origin({PATH: gone}) as site:
        with pytest.raises(StoreError, match=r"cannot be written: .* \(NoSuchBucket\)") as caught:
            await opened(site.url("")).keep("body", SHA1, PDF, CONTENT)
    assert not caught.value.passes


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_ENDPOINT_URL", "s3.example"),
        ("AWS_ENDPOINT_URL_S3", "::"),
        ("AWS_REGION", "a b/"),
        ("AWS_DEFAULT_REGION", "größe"),
        ("AWS_ACCESS_KEY_ID", "key\n"),
        ("AWS_SECRET_ACCESS_KEY", "hunter2\n"),
        ("AWS_SESSION_TOKEN", "a b"),
        ("AWS_S3_EXPRESS", "perhaps"),
    ],
)
def test_a_value_of_the_environment_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(StoreError) as caught:
        store_of(CrawlSettings(store="s3://bodies"))
    assert (name in str(caught.value) or value in str(caught.value)) and "hunter2" not in str(caught.value)
    assert not caught.value.passes


def test_an_address_of_other_letters_is_asked_as_browsers_do() -> None:
    assert CrawlSettings(store_endpoint="https://größe.example:9000/s3/").store_endpoint == (
        "https://xn--gre-6ka8i.example:9000/s3"
    )


async def test_where_another_process_was_quicker_its_file_stays() -> None:
    taken = reply(status="412 Precondition Failed")
    there = reply(b"x" * len(CONTENT), headers={"Last-Modified": "Tue, 01 Dec 2026 12:00:00 GMT", "ETag": '"x"'})
    async with Origin({PATH: stage(MISSING, taken, there)}) as site:
        await opened(site.url("")).keep("body", SHA1, PDF, CONTENT)
        assert [request.method for request in site.requests] == ["HEAD", "PUT", "HEAD"]


async def test_an_upload_that_is_cancelled_lets_go_of_the_body() -> None:
    data = bytes(20 * 2**20)
    begun = reply(
        b"<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>",
        content_type="application/xml",
    )
    asked: list[str] = []
    sending = asyncio.Event()

    async def answer(request: Any, writer: Any) -> None:
        asked.append(request.method)
        writer.write({"HEAD": MISSING, "POST": begun}.get(request.method, b""))
        if request.method == "PUT":
            sending.set()
            await asyncio.sleep(60)

    sha1hex = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    path = f"/bodies/body/{sha1hex[:2]}/{sha1hex[2:4]}/{sha1hex}.pdf"
    names = [path, f"{path}?uploads", f"{path}?uploads=", *(f"{path}?partNumber={n}&uploadId=1" for n in (1, 2, 3))]
    spool = Spool(None, 2**30)
    body = await spilled(data, spool)
    async with Origin(dict.fromkeys(names, answer)) as site:
        upload = asyncio.ensure_future(opened(site.url("")).keep("body", sha1hex, PDF, body))
        await asyncio.wait([upload, asyncio.ensure_future(sending.wait())], return_when=asyncio.FIRST_COMPLETED)
        assert not upload.done(), upload.exception()
        upload.cancel()
        with pytest.raises(asyncio.CancelledError):
            await upload
        body.close()
        while spool.used:
            await asyncio.sleep(0)
    assert asked[:2] == ["HEAD", "POST"]
