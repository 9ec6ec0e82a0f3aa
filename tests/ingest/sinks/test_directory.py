"""Files in a folder are there as a whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import pathlib
import subprocess
import sys

import pytest

from datasette_ingest.ingest.errors import StoreError
from datasette_ingest.ingest.files import PDF
from datasette_ingest.ingest.http.body import Body
from datasette_ingest.ingest.settings import CrawlSettings
from datasette_ingest.ingest.sinks import KeptFiles, store_of
from datasette_ingest.ingest.sinks.layout import is_unfinished, named_by

from ..origin import PDF as CONTENT
from .conftest import content, listed

SHA1 = hashlib.sha1(CONTENT, usedforsecurity=False).hexdigest()


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "store"


def opened(root: pathlib.Path) -> KeptFiles:
    store = store_of(CrawlSettings(store=str(root)))
    assert store is not None
    return store


KILLED_AT_EACH_LINE = """
import asyncio, os, shutil, signal, sys, threading
from datasette_ingest.ingest.settings import CrawlSettings
from datasette_ingest.ingest.sinks import store_of

root, sha1hex, before = sys.argv[1], sys.argv[2], bytes.fromhex(sys.argv[3])
content = bytes.fromhex(sys.argv[4])

def keep(data):
    asyncio.run(store_of(CrawlSettings(store=root)).keep("body", sha1hex, "application/pdf", data))

def killed_at(line):
    seen = 0
    def trace(frame, event, argument):
        nonlocal seen
        if not frame.f_code.co_filename.endswith("directory.py"):
            return None
        if event == "line":
            seen += 1
            if seen == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace
    threading.settrace(trace)
    keep(content)
    os._exit(0)

path = f"{root}/body/{sha1hex[:2]}/{sha1hex[2:4]}/{sha1hex}.pdf"
line, was_killed = 0, True
while was_killed:
    line += 1
    shutil.rmtree(root, ignore_errors=True)
    if before:
        keep(before)
    child = os.fork()
    if not child:
        killed_at(line)
    was_killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    found = open(path, "rb").read() if os.path.exists(path) else b""
    print("before" if found == before else "after" if found == content else "torn")
"""


@pytest.mark.parametrize("before", [b"", b"too short"])
def test_a_process_that_is_killed_at_any_line_leaves_the_file_whole_or_as_it_was(
    root: pathlib.Path, before: bytes
) -> None:
    arguments = [str(root), SHA1, before.hex(), CONTENT.hex()]
    printed = subprocess.run(
        [sys.executable, "-c", KILLED_AT_EACH_LINE, *arguments], capture_output=True, text=True, check=True
    )
    states = printed.stdout.split()
    assert set(states) == {"before", "after"} and states == sorted(states, reverse=True)
    asyncio.run(opened(root).keep("body", SHA1, PDF, CONTENT))
    assert asyncio.run(content(opened(root), "body", SHA1)) == CONTENT


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EACCES])
async def test_what_the_system_refuses_is_said_and_nothing_half_written_stays(
    root: pathlib.Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    await opened(root).keep("text", SHA1, "text/plain", b"there before")

    def refuse(handle: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", refuse)
    for attempt in (opened(root).prepare(), opened(root).keep("body", SHA1, PDF, CONTENT)):
        with pytest.raises(StoreError) as caught:
            await attempt
        assert str(caught.value) == f"The store {root} cannot be written: {os.strerror(code)}"
        assert not caught.value.passes
    monkeypatch.undo()
    assert list(await listed(opened(root))) == [f"text/{SHA1[:2]}/{SHA1[2:4]}/{SHA1}.txt"]


async def test_a_disk_that_is_unmounted_is_not_taken_for_an_empty_store(root: pathlib.Path) -> None:
    store = opened(root)
    await store.keep("body", SHA1, PDF, CONTENT)
    root.rename(root.with_name("elsewhere"))
    with pytest.raises(StoreError, match="cannot be written: No such file or directory"):
        await store.keep("body", SHA1, PDF, CONTENT)
    root.mkdir()
    with pytest.raises(StoreError, match="is another, empty folder than before: was its disk unmounted"):
        await store.keep("body", SHA1, PDF, CONTENT)
    root.rmdir()
    root.with_name("elsewhere").rename(root)
    await store.keep("body", SHA1, PDF, CONTENT)
    assert not list(root.rglob("*.part"))


async def test_a_store_that_is_not_there_is_not_listed_as_an_empty_one(root: pathlib.Path) -> None:
    assert await opened(root).find("body", SHA1) is None
    with pytest.raises(StoreError, match="cannot be read: No such file or directory"):
        await listed(opened(root))


async def test_the_folder_is_made_where_the_one_that_holds_it_is_there(root: pathlib.Path) -> None:
    await opened(root).prepare()
    assert root.is_dir() and not list(root.iterdir())
    with pytest.raises(StoreError, match="no/store cannot be written: No such file or directory"):
        await opened(root.with_name("no") / "store").prepare()


async def test_a_body_whose_bytes_are_gone_is_not_kept_in_part(root: pathlib.Path) -> None:
    with pytest.raises(StoreError, match=r"Of 9 bytes for body/.* only 3 could be read; nothing was kept"):
        await opened(root).keep("body", SHA1, PDF, Body(pieces=[b"abc"], size=9))
    assert await listed(opened(root)) == {}


async def test_a_call_that_is_cancelled_ends_when_its_thread_does(
    root: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, sync = asyncio.Event(), os.fsync
    loop = asyncio.get_running_loop()

    def tell(handle: int) -> None:
        loop.call_soon_threadsafe(inside.set)
        sync(handle)

    monkeypatch.setattr(os, "fsync", tell)
    task = asyncio.ensure_future(opened(root).keep("body", SHA1, PDF, CONTENT))
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await content(opened(root), "body", SHA1) == CONTENT


async def test_other_files_are_listed_and_folders_of_others_not_entered(root: pathlib.Path) -> None:
    store = opened(root)
    await store.keep("body", SHA1, PDF, CONTENT)
    (root / "lost+found" / "deep").mkdir(parents=True)
    (root / "notes.txt").write_text("mine")
    leftover = root / "body" / SHA1[:2] / SHA1[2:4] / f".{SHA1}.pdf.0123456789abcdef.part"
    leftover.write_text("half")
    (root / "body" / "xx").mkdir()
    found = await listed(store)
    assert set(found) == {
        f"body/{SHA1[:2]}/{SHA1[2:4]}/{SHA1}.pdf",
        leftover.relative_to(root).as_posix(),
        "body/xx",
        "lost+found",
        "notes.txt",
    }
    assert [key for key in found if named_by(key)] == [f"body/{SHA1[:2]}/{SHA1[2:4]}/{SHA1}.pdf"]
    assert [key for key in found if is_unfinished(key)] == [leftover.relative_to(root).as_posix()]
    assert await content(store, "body", SHA1) == CONTENT


async def test_a_kind_may_be_a_link_to_another_disk(root: pathlib.Path) -> None:
    elsewhere = root.with_name("elsewhere")
    elsewhere.mkdir()
    root.mkdir()
    (root / "body").symlink_to(elsewhere)
    await opened(root).keep("body", SHA1, PDF, CONTENT)
    assert (elsewhere / SHA1[:2] / SHA1[2:4] / f"{SHA1}.pdf").read_bytes() == CONTENT
    assert len(await listed(opened(root))) == 1
