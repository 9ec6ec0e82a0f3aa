"""Bucket: files in a bucket of S3 or a service that speaks its protocol. Needs the extra `s3`."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import obstore
from obstore import exceptions

from ..errors import StoreError
from ..http.body import in_thread
from ..http.budget import Budget
from ..model import MIB
from ..settings import BUCKET_SCHEME, CrawlSettings, check_key, parse_endpoint, parse_region
from .base import Content, pieces_of, size_of
from .layout import StoredFile

PART_BYTES = 8 * MIB
"""Larger files are sent in parts of this size. The service shows them when all have arrived."""
PARTS_AT_ONCE = 2
UPLOAD_BYTES = 64 * MIB
"""What all uploads may hold in memory together. Others wait."""
LISTED_AT_ONCE = 1000
RETRIES: Any = {"max_retries": 10, "retry_timeout": timedelta(seconds=60)}
"""Of each request, after growing pauses: where the service answers 5xx or cannot be reached."""
RETRIES_FOR_A_PERSON: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=5)}
REQUEST_TIME = timedelta(minutes=5)
"""How long one request may take: a part, over a slow line."""
_REFUSED = re.compile(r"status code: 4(?!08|29)\d\d|Config error")
_METADATA_SERVICE = "http://169.254.169.254/"
"""Where the library asks for keys when it was given none: Amazon's machines have a service there."""
NO_KEYS = (
    "no keys were found: set store_access_key and store_secret_key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)

T = TypeVar("T")


class Bucket:
    """The files below a prefix. What the settings leave out is taken from the environment, as AWS's own tools do."""

    piece_bytes = 4 * MIB

    def __init__(self, settings: CrawlSettings, *, is_waited_for: bool) -> None:
        assert settings.store is not None
        bucket, _, prefix = settings.store.removeprefix(BUCKET_SCHEME).partition("/")
        config: dict[str, Any] = {}
        endpoint = settings.store_endpoint or _from_environment(
            parse_endpoint, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"
        )
        if endpoint is not None:
            config |= {"endpoint": endpoint, "aws_endpoint_url_s3": endpoint}
        region = settings.store_region or _from_environment(parse_region, "AWS_REGION", "AWS_DEFAULT_REGION")
        if region is not None:
            config["region"] = region
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            _from_environment(check_key, name)
        self._place = settings.store
        self._budget = Budget(UPLOAD_BYTES)
        with self._told("used"):
            self._store = obstore.store.S3Store(
                bucket,
                prefix=prefix or None,
                config=config,  # type: ignore[arg-type, unused-ignore]
                client_options={"allow_http": (endpoint or "").startswith("http://"), "timeout": REQUEST_TIME},
                retry_config=RETRIES_FOR_A_PERSON if is_waited_for else RETRIES,
                credential_provider=_keys(settings),
            )

    async def prepare(self) -> None:
        with self._told("read"):
            async for _ in self._store.list(chunk_size=1):
                break

    async def write(self, key: str, content: Content, *, is_fixed: bool) -> None:
        size, found = size_of(content), await self.size(key)
        if found == size and (is_fixed or await self._is_same(key, content)):
            return
        wanted = min(size, PART_BYTES * (PARTS_AT_ONCE + 1))
        reserved = await self._budget.reserve(wanted)
        try:
            with self._told("written"):
                if size <= PART_BYTES:
                    await self._put(key, await in_thread(lambda: b"".join(pieces_of(content))), is_new=found is None)
                else:
                    await self._put_in_parts(key, content)
        finally:
            self._budget.release(reserved)

    async def size(self, key: str) -> int | None:
        with self._told("read"):
            try:
                return int((await self._store.head_async(key))["size"])
            except FileNotFoundError:
                return None

    async def read(self, key: str, start: int, stop: int) -> bytes:
        with self._told("read"):
            taken = bytes(await self._store.get_range_async(key, start=start, end=stop))
        if len(taken) < stop - start:
            raise StoreError(f"The file {key} of the store {self._place} is shorter than it was a moment ago")
        return taken

    async def list(self, folder: str = "") -> AsyncIterator[Sequence[StoredFile]]:
        with self._told("read"):
            async for found in self._store.list(folder or None, chunk_size=LISTED_AT_ONCE):
                yield [StoredFile(each["path"], each["size"], each["last_modified"].timestamp()) for each in found]

    async def aclose(self) -> None:
        """The library closes its connections itself."""

    async def _put(self, key: str, data: bytes, *, is_new: bool) -> None:
        """Send a file in one request: only where there is none yet if it `is_new`, so that of two processes one writes."""
        if is_new:
            try:
                await self._store.put_async(key, data, mode="create", use_multipart=False)
                return
            except exceptions.AlreadyExistsError:
                if await self.size(key) == len(data):
                    return
            except (exceptions.NotSupportedError, NotImplementedError):  # AWS_CONDITIONAL_PUT=disabled
                pass
        await self._store.put_async(key, data, use_multipart=False)

    async def _put_in_parts(self, key: str, content: Content) -> None:
        async def pieces() -> AsyncIterator[bytes]:
            # A handle of its own: if the upload is cancelled, a thread may still be reading when the caller closes.
            body = content if isinstance(content, bytes) else content.share()
            try:
                source, left = pieces_of(body), size_of(body)
                while (piece := await in_thread(lambda: next(source, None))) is not None:
                    left -= len(piece)
                    yield piece
                if left:
                    raise StoreError(f"{left} bytes of {key} could not be read; nothing was kept")
            finally:
                if not isinstance(body, bytes):
                    body.close()

        await self._store.put_async(key, pieces(), chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE)

    async def _is_same(self, key: str, content: Content) -> bool:
        """Whether the file, which has the size of the content, has its bytes. Written again at once where it is large."""
        size = size_of(content)
        if size > PART_BYTES:
            return False
        return size == 0 or await self.read(key, 0, size) == b"".join(pieces_of(content))

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """What the library says, as a StoreError."""
        try:
            yield
        except (FileNotFoundError, exceptions.BaseError) as problem:
            said, passes = _first_line(problem), isinstance(problem, exceptions.GenericError)
            has_keys = _METADATA_SERVICE not in said
            passes = passes and has_keys and not _REFUSED.search(str(problem))
            raise StoreError(
                f"The store {self._place} cannot be {what}: {said if has_keys else NO_KEYS}", passes=passes
            ) from problem


def _keys(settings: CrawlSettings) -> Any:
    """What gives the library the keys of the settings, without the session of those in the environment; None where the
    settings have none."""
    if settings.store_access_key is None or settings.store_secret_key is None:
        return None
    keys = {
        "access_key_id": settings.store_access_key.get_secret_value(),
        "secret_access_key": settings.store_secret_key.get_secret_value(),
        "expires_at": None,
    }
    return lambda: keys


def _from_environment(read: Callable[[str], T], *names: str) -> T | None:
    """The value of the first of these variables that is set. The library itself panics at a value that is none.

    :raises StoreError: when it cannot be used
    """
    for name in names:
        text = os.environ.get(name)
        if text:
            try:
                return read(text)
            except ValueError as problem:
                raise StoreError(f"The environment variable {name} cannot be used: {problem}") from None
    return None


def _first_line(problem: Exception) -> str:
    """What was wrong, without the library's own details."""
    said = str(problem).strip().partition("\n")[0]
    code = re.search(r"<Code>(\w+)</Code>", str(problem))
    return said.removesuffix('<?xml version="1.0" encoding="UTF-8"?>').rstrip(": ") + (f" ({code[1]})" if code else "")
