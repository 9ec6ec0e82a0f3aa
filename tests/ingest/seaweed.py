"""SeaweedFS: a real S3 service on loopback."""

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

from ..conftest import missing

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


@contextlib.contextmanager
def serving(folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    """The settings with which the service is asked, without a bucket. It has one, called `bodies`."""
    program = shutil.which("weed", path=os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]))
    if program is None:
        missing("weed (SeaweedFS)")
    s3, master, volume, filer = _ports(4)
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
