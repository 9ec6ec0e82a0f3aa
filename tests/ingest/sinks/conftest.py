"""A store in a folder, and in a bucket of a real service on loopback."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from datasette_ingest.ingest.http.body import Body, BodyWriter, Spool
from datasette_ingest.ingest.http.decode import Decoder
from datasette_ingest.ingest.settings import CrawlSettings
from datasette_ingest.ingest.sinks import KeptFiles, store_of

from .. import seaweed


@pytest.fixture(scope="session")
def s3_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The settings with which SeaweedFS is asked, without a bucket."""
    with seaweed.serving(tmp_path_factory.mktemp("seaweed")) as settings:
        yield settings


@pytest.fixture(params=["folder", "bucket"])
def settings(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> CrawlSettings:
    """Those of a store of its own for each test."""
    if request.param == "folder":
        return CrawlSettings(store=str(tmp_path / "store"))
    service = request.getfixturevalue("s3_service")
    return CrawlSettings(store=f"s3://bodies/{tmp_path.name}", **secret(service))


def secret(service: dict[str, Any]) -> dict[str, Any]:
    """The settings of a service as the model holds them."""
    from pydantic import SecretStr

    return {name: SecretStr(value) if name.endswith("_key") else value for name, value in service.items()}


@pytest.fixture
def kept(settings: CrawlSettings) -> KeptFiles:
    store = store_of(settings)
    assert store is not None
    return store


async def spilled(data: bytes, spool: Spool | None = None) -> Body:
    """A body that lies on disk, as a large one that was fetched."""
    writer = BodyWriter(Decoder([]), spool or Spool(None, 2**40), max_bytes=2**40, expected=len(data))
    for start in range(0, len(data), 2**20):
        writer.take(data[start : start + 2**20])
        await writer.drain()
    return await writer.finish()


async def content(store: KeptFiles, kind: str, sha1hex: str, start: int = 0, stop: int | None = None) -> bytes | None:
    """What is kept; None where nothing is."""
    file = await store.find(kind, sha1hex)
    return None if file is None else b"".join([piece async for piece in store.read(file, start, stop)])


async def listed(store: KeptFiles) -> dict[str, int]:
    """Key -> size of all files."""
    return {file.key: file.size async for files in store.list() for file in files}
