"""A store in a folder, and in a bucket of a real service on loopback."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from datasette_ingest.ingest.http.body import Body, BodyWriter, Spool
from datasette_ingest.ingest.http.decode import Decoder
from datasette_ingest.ingest.settings import CrawlSettings
from datasette_ingest.ingest.sinks import KeptFiles, store_of

from ...conftest import missing

KEY, SECRET = "testkey", "testsecret"


def _ports(number: int) -> list[int]:
    """Ports that are free, each with the port 10,000 above it, which the service takes for its own calls."""
    with contextlib.ExitStack() as held:
        found: list[int] = []
        while len(found) < number:
            taken = held.enter_context(socket.socket())
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            if port > 55_000:
                continue
            with contextlib.suppress(OSError):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port + 10_000))
                found.append(port)
        return found


@pytest.fixture(scope="session")
def s3_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The settings with which SeaweedFS is asked, without a bucket."""
    program = shutil.which("weed", path=os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]))
    if program is None:
        missing("weed (SeaweedFS)")
    s3, master, volume, filer = _ports(4)
    folder = tmp_path_factory.mktemp("seaweed")
    command = [
        str(program), "mini", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder}", "-bucket=bodies",
        f"-s3.port={s3}", f"-master.port={master}", f"-volume.port={volume}", f"-filer.port={filer}",
        "-webdav=false", "-admin.ui=false", "-s3.port.iceberg=0",
    ]  # fmt: skip
    keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    quiet: dict[str, Any] = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen(command, env={**os.environ, **keys}, **quiet)
    try:
        _wait_until_it_takes_files(f"http://127.0.0.1:{s3}", server)
        yield {"store_endpoint": f"http://127.0.0.1:{s3}", "store_access_key": KEY, "store_secret_key": SECRET}
    finally:
        server.kill()  # asked to end, it takes half a minute
        server.wait()


def _wait_until_it_takes_files(endpoint: str, server: subprocess.Popen[bytes]) -> None:
    import obstore
    from obstore.exceptions import BaseError

    retries: Any = {"max_retries": 0}
    bucket = obstore.store.S3Store(
        "bodies",
        endpoint=endpoint,
        access_key_id=KEY,
        secret_access_key=SECRET,
        client_options={"allow_http": True},
        retry_config=retries,
    )
    for _ in range(600):
        assert server.poll() is None, "the service ended"
        with contextlib.suppress(BaseError, OSError):
            bucket.put("first", b"x")
            bucket.delete("first")
            return
        time.sleep(0.1)
    raise AssertionError("the service takes no files")


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
