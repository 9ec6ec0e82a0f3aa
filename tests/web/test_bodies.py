"""Kept files and pictures: who gets them, which bytes, and what a browser may do with them."""

from __future__ import annotations

import asyncio
import hashlib
import pathlib
import re
import sqlite3
from typing import Any

import pytest

from datasette_ingest import sqlite
from datasette_ingest.ingest import schema
from datasette_ingest.ingest.facts import FileMeta, Thumbnail
from datasette_ingest.ingest.files import digest, sniff
from datasette_ingest.ingest.settings import CrawlSettings
from datasette_ingest.ingest.sinks import store_of
from datasette_ingest.web.urls import Links

from ..ingest.export.kit import Library
from ..ingest.origin import PDF
from .conftest import READER, ROOT, cookies_of, get

CLOSED = {"databases": {"works": {"tables": {"ingest_request": {"allow": {"id": "root"}}}}}}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(60)
PAGE = b"<!doctype html><html><script>alert(document.cookie)</script></html>"
LARGE = PDF + bytes(3 * 2**20) + b"%%EOF"


def sha1(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


class Shelf:
    """A database, and a store beside it."""

    def __init__(self, folder: pathlib.Path, name: str = "works") -> None:
        self.library = Library(folder / f"{name}.db")
        self.root = folder / "kept"
        self.config: dict[str, Any] = {"plugins": {"datasette-ingest": {"store": str(self.root)}}}

    def name(self, data: bytes, mimetype: str | None = None) -> str:
        """Let the tables name it."""
        meta: FileMeta = digest([data]).meta(mimetype or sniff(data[:8192], data[-2048:]))
        with self.library.writing() as conn:
            meta.write(conn, updated="2026-12-01T12:00:00Z")
        return meta.sha1hex

    def keep(self, data: bytes, mimetype: str | None = None) -> str:
        store = store_of(CrawlSettings(store=str(self.root)))
        assert store is not None
        asyncio.run(store.keep("body", sha1(data), mimetype or sniff(data[:8192], data[-2048:]), data))
        return sha1(data)

    def hold(self, data: bytes) -> str:
        self.name(data)
        return self.keep(data)

    def picture(self, sha1hex: str, content: Any, mimetype: str = "image/png") -> None:
        with self.library.writing() as conn:
            Thumbnail(sha1hex, mimetype, 4, 3, content).write(conn, updated="")


@pytest.fixture
def shelf(tmp_path: pathlib.Path) -> Shelf:
    return Shelf(tmp_path)


async def ask(datasette: Any, path: str, actor: Any = ROOT, method: str = "GET", **headers: str) -> Any:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return await datasette.client.request(method, path, cookies=cookies_of(datasette, actor), headers=sent)


def said(answer: Any) -> str:
    """The page without what is new in each answer: the address, and the token of a form."""
    address = answer.request.url.path
    return re.sub(r'value="[^"]+"', "", answer.text.replace(address, "")).replace(address.rpartition("/")[2], "")


def at(sha1hex: str, database: str = "works") -> str:
    return f"/-/ingest-body/{database}/{sha1hex}"


async def test_a_pdf_is_shown_by_the_browser_and_can_do_nothing_else(open_ds: Any, shelf: Shelf) -> None:
    sha1hex = await asyncio.to_thread(shelf.hold, PDF)
    datasette = await open_ds(shelf.config, paths=[str(shelf.library.path)])
    answer = await ask(datasette, at(sha1hex), None)
    assert (answer.status_code, answer.content) == (200, PDF)
    expected = {
        "content-type": "application/pdf",
        "content-disposition": f'inline; filename="{sha1hex}.pdf"',
        "content-length": str(len(PDF)),
        "accept-ranges": "bytes",
        "etag": f'"{sha1hex}"',
        "x-content-type-options": "nosniff",
        "content-security-policy": "sandbox; default-src 'none'",
        "cache-control": "private",
    }
    assert {name: answer.headers[name] for name in expected} == expected
    assert (await ask(datasette, at(sha1hex), ROOT)).headers["cache-control"].startswith("private")


@pytest.mark.parametrize(
    ("data", "claimed", "name"),
    [
        (PAGE, None, ".html"),
        (PAGE, "application/pdf", ".html"),
        (b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", None, ".svg"),
        (b"<?xml version='1.0'?><article/>", None, ".xml"),
        (PNG, None, ".png"),
        (b"\x00\x01\x02", None, ""),
        (b"", None, ""),
    ],
)
async def test_all_else_is_a_download_of_no_type_whatever_the_tables_say(
    open_ds: Any, shelf: Shelf, data: bytes, claimed: str | None, name: str
) -> None:
    sha1hex = shelf.name(data, claimed)
    await asyncio.to_thread(shelf.keep, data, claimed)
    answer = await ask(await open_ds(shelf.config, paths=[str(shelf.library.path)]), at(sha1hex))
    assert (answer.status_code, answer.content) == (200, data)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == f'attachment; filename="{sha1hex}{name}"'
    assert (
        answer.headers["x-content-type-options"] == "nosniff" and "sandbox" in answer.headers["content-security-policy"]
    )


async def test_a_part_a_condition_and_a_look_get_what_they_ask_for(open_ds: Any, shelf: Shelf) -> None:
    sha1hex = await asyncio.to_thread(shelf.hold, LARGE)
    datasette = await open_ds(shelf.config, paths=[str(shelf.library.path)])
    part = await ask(datasette, at(sha1hex), range=f"bytes=5-{2**21}")
    assert (part.status_code, part.content) == (206, LARGE[5 : 2**21 + 1])
    assert part.headers["content-range"] == f"bytes 5-{2**21}/{len(LARGE)}"
    end = await ask(datasette, at(sha1hex), range="bytes=-5", if_range=f'"{sha1hex}"')
    assert (end.status_code, end.content) == (206, b"%%EOF")
    beyond = await ask(datasette, at(sha1hex), range=f"bytes={len(LARGE)}-")
    assert (beyond.status_code, beyond.content) == (416, b"")
    assert beyond.headers["content-range"] == f"bytes */{len(LARGE)}"
    known = await ask(datasette, at(sha1hex), if_none_match=f'W/"{sha1hex}"')
    assert (known.status_code, known.content, known.headers["etag"]) == (304, b"", f'"{sha1hex}"')
    several = await ask(datasette, at(sha1hex), range="bytes=0-1,5-6")
    assert (several.status_code, several.content) == (200, LARGE)
    look = await ask(datasette, at(sha1hex), method="HEAD")
    assert (look.status_code, look.content, look.headers["content-length"]) == (200, b"", str(len(LARGE)))
    assert (await ask(datasette, at(sha1hex), method="POST")).status_code in (403, 405)


async def test_a_large_file_is_sent_a_piece_at_a_time(open_ds: Any, shelf: Shelf) -> None:
    sha1hex = await asyncio.to_thread(shelf.hold, LARGE)
    datasette = await open_ds(shelf.config, paths=[str(shelf.library.path)])
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    never = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await never.wait()
        return {"type": "http.disconnect"}

    cookie = f"ds_actor={cookies_of(datasette, ROOT)['ds_actor']}".encode()
    scope = {
        "type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": at(sha1hex),
        "raw_path": at(sha1hex).encode(), "query_string": b"", "headers": [(b"cookie", cookie)],
    }  # fmt: skip
    await datasette.app()(scope, receive, send)
    pieces = [message["body"] for message in sent[1:]]
    assert b"".join(pieces) == LARGE and max(map(len, pieces)) <= 2**20

    sent.clear()
    gone = asyncio.Event()

    async def leave() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send_to_who_leaves(message: dict[str, Any]) -> None:
        sent.append(message)
        if message.get("body"):
            gone.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    await datasette.app()({**scope}, leave, send_to_who_leaves)
    assert len(b"".join(message.get("body", b"") for message in sent)) == 2**20, "who has left is sent nothing more"


@pytest.mark.parametrize(
    "name",
    ["0" * 40, "..%2F..%2Fworks.db", "..", "%00", "", "x" * 40, "{}.json", "{}.pdf", "{}%0A", "{}/", "body", "ſ" * 40],
)
async def test_what_no_table_names_is_not_looked_for(
    open_ds: Any, shelf: Shelf, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    sha1hex = await asyncio.to_thread(shelf.hold, PDF)
    datasette = await open_ds(shelf.config, paths=[str(shelf.library.path)])
    (await ask(datasette, at(sha1hex))).raise_for_status()
    monkeypatch.setattr("datasette_ingest.ingest.sinks.kept.KeptFiles.find", None)
    answer = await ask(datasette, at(name.format(sha1hex)))
    assert answer.status_code in (404, 302) and PDF not in answer.content


async def test_the_case_of_a_sha1_does_not_matter(open_ds: Any, shelf: Shelf) -> None:
    sha1hex = await asyncio.to_thread(shelf.hold, PDF)
    datasette = await open_ds(shelf.config, paths=[str(shelf.library.path)])
    assert (await ask(datasette, at(sha1hex.upper()))).headers["etag"] == f'"{sha1hex}"'


async def test_what_another_database_has_looks_like_what_nobody_has(
    open_ds: Any, shelf: Shelf, tmp_path: pathlib.Path
) -> None:
    other = Shelf(tmp_path, "other")
    theirs = await asyncio.to_thread(other.hold, PDF)
    paths = [str(shelf.library.path), str(other.library.path)]
    datasette = await open_ds(shelf.config, paths=paths)
    assert (await ask(datasette, at(theirs, "other"), READER)).content == PDF
    answers = [await ask(datasette, at(name), READER) for name in (theirs, "0" * 40)]
    assert {answer.status_code for answer in answers} == {404} and said(answers[0]) == said(answers[1])


async def test_only_who_may_read_the_results_gets_a_file(open_ds: Any, shelf: Shelf) -> None:
    def with_a_job() -> str:
        with shelf.library.writing() as conn:
            conn.execute("insert into _enrichment_loaded_from values ('ingest_request')")
        return shelf.hold(PDF)

    sha1hex = await asyncio.to_thread(with_a_job)
    shelf.picture(sha1hex, PNG)
    datasette = await open_ds({**CLOSED, **shelf.config}, paths=[str(shelf.library.path)])
    for path in ("/-/ingest-body/works/", "/-/ingest-thumbnail/works/"):
        refused = [await ask(datasette, path + name, READER) for name in (sha1hex, "0" * 40, "no-sha1")]
        assert [answer.status_code for answer in refused] == [403] * 3 and len(set(map(said, refused))) == 1
        assert (await ask(datasette, path + sha1hex, ROOT)).status_code == 200
    missing = await ask(datasette, at(sha1hex, "nowhere"), READER)
    assert (missing.status_code, said(missing)) == (403, said(refused[0]))
    published = {**CLOSED, "plugins": {"datasette-ingest": {"store": str(shelf.root), "publish_results": True}}}
    opened = await open_ds(published, paths=[str(shelf.library.path)])
    assert (await ask(opened, at(sha1hex), READER)).content == PDF


@pytest.mark.parametrize("closed", ["file_meta", "ingest_file_result"])
async def test_a_table_that_names_files_and_is_closed_closes_the_files(open_ds: Any, shelf: Shelf, closed: str) -> None:
    sha1hex = await asyncio.to_thread(shelf.hold, PDF)
    config = {"databases": {"works": {"tables": {closed: {"allow": {"id": "root"}}}}}, **shelf.config}
    datasette = await open_ds(config, paths=[str(shelf.library.path)])
    assert [(await ask(datasette, at(name), READER)).status_code for name in (sha1hex, "0" * 40)] == [403, 403]
    assert (await ask(datasette, at(sha1hex))).status_code == 200


async def test_a_users_own_table_of_that_name_names_no_file(open_ds: Any, shelf: Shelf, tmp_path: pathlib.Path) -> None:
    sha1hex = await asyncio.to_thread(shelf.hold, PDF)
    path = tmp_path / "mine.db"
    with sqlite3.connect(path) as conn:
        conn.execute("create table file_meta (sha1hex text primary key, sha256hex, md5hex, size_bytes, mimetype)")
        conn.execute("insert into file_meta (sha1hex) values (?)", [sha1hex])
    conn.close()
    datasette = await open_ds(shelf.config, paths=[str(shelf.library.path), str(path)])
    assert (await ask(datasette, at(sha1hex, "mine"))).status_code == 404


async def test_tables_under_a_prefix_and_hits_without_facts_name_files_too(open_ds: Any, shelf: Shelf) -> None:
    sha1hex = await asyncio.to_thread(shelf.keep, PDF)
    with shelf.library.writing() as conn:
        sqlite.migrate(conn, schema.specs(["ingest_file_result"], prefix="second_"))
        conn.execute(
            "insert into second_ingest_file_result (ingest_type, base_url, updated, hit, status, terminal_sha1hex)"
            " values ('pdf', 'http://h/', '2026-12-01T12:00:00Z', 1, 'success', ?)",
            [sha1hex],
        )
    datasette = await open_ds(shelf.config, paths=[str(shelf.library.path)])
    assert (await ask(datasette, at(sha1hex))).content == PDF


async def test_a_file_that_is_not_kept_is_said(open_ds: Any, shelf: Shelf) -> None:
    sha1hex = shelf.name(PDF)
    for config in ({}, shelf.config):
        datasette = await open_ds(config, paths=[str(shelf.library.path)])
        answer = await ask(datasette, at(sha1hex))
        assert answer.status_code == 404 and "This file is not kept" in answer.text


async def test_a_damaged_file_is_not_passed_off_as_the_whole_one(open_ds: Any, shelf: Shelf) -> None:
    sha1hex = await asyncio.to_thread(shelf.hold, PDF)
    (path,) = shelf.root.rglob("*.pdf")
    path.write_bytes(PDF[:-1])
    answer = await ask(await open_ds(shelf.config, paths=[str(shelf.library.path)]), at(sha1hex))
    assert answer.status_code == 404 and "The kept file is damaged" in answer.text


async def test_a_store_that_cannot_be_read_is_a_503_that_does_not_say_where_it_is(
    open_ds: Any, shelf: Shelf, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sha1hex = await asyncio.to_thread(shelf.hold, PDF)
    datasette = await open_ds(shelf.config, paths=[str(shelf.library.path)])

    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("datasette_ingest.ingest.sinks.directory._file_size", refuse)
    answer = await ask(datasette, at(sha1hex))
    assert answer.status_code == 503 and str(shelf.root) not in answer.text
    assert f"The store {shelf.root} cannot be read: Permission denied" in caplog.text


async def test_a_picture_comes_from_the_database(open_ds: Any, shelf: Shelf) -> None:
    sha1hex = shelf.name(PDF)
    shelf.picture(sha1hex, PNG)
    datasette = await open_ds({}, paths=[str(shelf.library.path)])
    answer = await ask(datasette, f"/-/ingest-thumbnail/works/{sha1hex}")
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, PNG, "image/png")
    assert answer.headers["content-disposition"] == f'inline; filename="{sha1hex}.png"'
    assert answer.headers["etag"] == f'"{sha1(PNG)}"', "a picture may be made anew"
    assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
    part = await ask(datasette, f"/-/ingest-thumbnail/works/{sha1hex}", range="bytes=1-3")
    assert (part.status_code, part.content) == (206, b"PNG")
    assert (await ask(datasette, f"/-/ingest-thumbnail/works/{'0' * 40}")).status_code == 404


@pytest.mark.parametrize("content", [PAGE, b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"GIF89a", b"", "text", None])
async def test_what_is_no_picture_is_not_shown(open_ds: Any, shelf: Shelf, content: Any) -> None:
    shelf.picture("a" * 40, content)
    answer = await ask(await open_ds({}, paths=[str(shelf.library.path)]), f"/-/ingest-thumbnail/works/{'a' * 40}")
    if isinstance(content, bytes):
        assert (answer.content, answer.headers["content-type"]) == (content, "application/octet-stream")
        assert answer.headers["content-disposition"].startswith("attachment; ")
    else:
        assert answer.status_code == 404


async def test_addresses_work_under_base_url_and_with_odd_names(open_ds: Any, tmp_path: pathlib.Path) -> None:
    shelf = Shelf(tmp_path, "größe 50%.x")
    sha1hex = await asyncio.to_thread(shelf.hold, PDF)
    shelf.picture(sha1hex, PNG)
    datasette = await open_ds(shelf.config, paths=[str(shelf.library.path)], settings={"base_url": "/prefix/"})
    links = Links(datasette)
    for address, content in ((links.body, PDF), (links.thumbnail, PNG)):
        path = str(address("größe 50%.x", sha1hex))
        assert path.startswith("/prefix/-/ingest-")
        answer = await get(datasette, path.removeprefix("/prefix"), ROOT)
        assert answer.content == content
