"""From a cell to a dataset's files: the platforms' APIs, pages that list files themselves, and files that are fetched."""

from __future__ import annotations

import asyncio
import hashlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
import trustme

from datasette_ingest.ingest import crawl_state, urls
from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.datasets import collect, manifest
from datasette_ingest.ingest.errors import STATUSES, SUCCESS, PutOff
from datasette_ingest.ingest.model import FileEntry, Fileset, IngestRequest, IngestResult, RetryClass

from ..origin import Origin, Raw, Request, html, redirect, reply
from ..rerouted import Rerouted
from .samples import FILES, answer, page_source

HOSTS = (
    "data.example.org", "api.figshare.com", "figshare.com", "ndownloader.figshare.com", "research.example.edu",
    "zenodo.org", "repository.example.ac.at", "archive.org", "ia800001.us.archive.org", "datadryad.org", "doi.org", "osf.io", "api.osf.io",
    "geodata.example.net", "files.example.net", "signs.example.org", "h.example",
)  # fmt: skip
SHA1 = {name: hashlib.sha1(content).hexdigest() for name, content in FILES.items()}

DATAVERSE = "https://data.example.org/dataset.xhtml?persistentId=doi:10.5072/FK2/TIDES1"
DATAVERSE_API = "/api/datasets/:persistentId/?persistentId=doi%3A10.5072%2FFK2%2FTIDES1"
ZENODO = "https://zenodo.org/records/7100001"
ITEM = "https://archive.org/details/frog-calls-1998"


def js(value: Any, **more: Any) -> bytes:
    return reply(json.dumps(value).encode(), content_type="application/json", **more)


def file(name: str, content_type: str = "application/octet-stream") -> bytes:
    return reply(FILES[name], content_type=content_type)


def landing(name: str) -> bytes:
    _, links, data = page_source(name)
    return reply(data, content_type="text/html; charset=utf-8", headers={"Link": ", ".join(links)} if links else None)


def handlers() -> dict[str, Any]:
    """The internet of these tests: paths are unique, whatever their host."""
    return {
        "/dataset.xhtml?persistentId=doi:10.5072/FK2/TIDES1": landing("dataverse.html"),
        "/dvn/file.xhtml?fileId=7001&version=2.0": landing("dataverse_file.html"),
        DATAVERSE_API: js(answer("dataverse.json")),
        "/dvn/api/datasets/:persistentId/?persistentId=hdl%3A20.500.99999%2FELBE": js(answer("dataverse.json")),
        "/api/access/datafile/7001?format=original": file("levels"),
        "/dvn/api/access/datafile/7001?format=original": file("levels"),
        "/api/access/datafile/7002": file("readme"),
        "/dvn/api/access/datafile/7002": file("readme"),
        "/articles/dataset/Beetle_counts_2020/19001234/3": landing("figshare_portal.html"),
        "/v2/articles/19001234/versions/3": js(answer("figshare.json")),
        "/v2/articles/19001234/versions/3/files?page=1&page_size=100": js(answer("figshare.json")["files"]),
        "/files/33001": redirect("https://h.example/signed?x=1"),
        "/signed": file("beetles"),
        "/10.5281/zenodo.7100001": redirect("https://zenodo.org/doi/10.5281/zenodo.7100001"),
        "/doi/10.5281/zenodo.7100001": redirect(ZENODO),
        "/records/7100001": landing("zenodo.html"),
        "/api/records/7100001": js(answer("zenodo.json")),
        "/api/records/7100001/files/scan%201.png/content": file("scan", "image/png"),
        "/api/records/7100001/files/notes.csv.gz/content": file("packed"),
        "/records/f2k8q-9xw31": landing("invenio_rdm.html"),
        "/api/records/f2k8q-9xw31": js(answer("invenio_rdm.json")),
        "/api/records/f2k8q-9xw31/files": js(answer("invenio_rdm_files.json")),
        "/api/records/f2k8q-9xw31/files/pollen.csv/content": file("pollen"),
        "/metadata/frog-calls-1998": js(answer("archive_org.json")),
        "/download/frog-calls-1998/calls/bufo%20bufo.wav": redirect("https://ia800001.us.archive.org/1/bufo.wav"),
        "/1/bufo.wav": file("calls"),
        "/download/frog-calls-1998/list.csv": file("list"),
        "/10.5072/frogs": redirect(ITEM),
        "/dataset/doi:10.5061/dryad.abc12": html("", "<h1>Finch beaks</h1>"),
        "/api/v2/datasets/doi%3A10.5061%2Fdryad.abc12": js(answer("dryad.json")),
        "/api/v2/versions/4711/files?per_page=100": js(answer("dryad_files.json")),
        "/api/v2/versions/4711/files?page=2": js({"_embedded": {"stash:files": []}, "_links": {}}),
        "/api/v2/files/1/download": reply(b"sign in", status="401 Unauthorized"),
        "/frogs/": html("", "<h1>Frogs</h1>"),
        "/v2/guids/frogs/": redirect("https://api.osf.io/v2/nodes/frogs/"),
        "/v2/nodes/frogs/": js({"data": {"id": "frogs", "type": "nodes"}}),
        "/v2/nodes/frogs/files/osfstorage/?page%5Bsize%5D=100": js(answer("osf.json")),
        "/v2/nodes/frogs/files/osfstorage/5a/": js(answer("osf_folder.json")),
        "/download/5b/": file("list"),
        "/download/5c/": file("calls"),
        "/en/dataset/glacier-outlines": landing("catalogue.html"),
        "/files/outlines.csv": file("outlines", "text/csv"),
        "/outlines.gpkg?download": file("gpkg"),
        "/object/42": landing("signposted.html"),
        "/object/42/a%20b.csv": file("list"),
        "/object/42/scan.tif": file("scan"),
    }


class Internet:
    """One origin that is every host. `await net.ask(url)`; change `net.site.handlers` before."""

    def __init__(self, site: Origin, make: Callable[..., Crawler]) -> None:
        self.site = site
        self._make = make

    async def ask(self, url: Any, *, ingest_type: str = "dataset", **settings: Any) -> IngestResult:
        return await self.crawler(**settings).ingest(IngestRequest(ingest_type, url))

    def crawler(self, **settings: Any) -> Crawler:
        return self._make(transport=Rerouted(self._resolve, self.site.port), **settings)

    async def _resolve(self, host: str, port: int) -> list[str]:
        assert host in HOSTS, host
        return ["127.0.0.1"]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[trustme.CA, str]:
    authority = trustme.CA()
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return authority, str(path)


@pytest_asyncio.fixture
async def net(
    make_crawler: Any, authority: tuple[trustme.CA, str], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Internet]:
    monkeypatch.setenv("SSL_CERT_FILE", authority[1])
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority[0].issue_cert(*HOSTS).configure_cert(tls)
    async with Origin(handlers(), tls=tls) as site:
        yield Internet(site, make_crawler)


def files_of(result: IngestResult) -> tuple[FileEntry, ...]:
    assert result.fileset is not None, result.error_message
    return result.fileset.files


def outcomes(result: IngestResult) -> dict[str, str]:
    return {file.path: file.status for file in files_of(result)}


# Platforms


@pytest.mark.parametrize(
    ("url", "platform", "platform_id", "files"),
    [
        (DATAVERSE, "dataverse", "doi:10.5072/FK2/TIDES1", {"data/hourly/levels.dta": "levels", "README.txt": "readme"}),
        ("https://data.example.org/dvn/file.xhtml?fileId=7001&version=2.0", "dataverse", "hdl:20.500.99999/ELBE",
         {"data/hourly/levels.dta": "levels", "README.txt": "readme"}),
        ("https://research.example.edu/articles/dataset/Beetle_counts_2020/19001234/3", "figshare", "19001234.v3",
         {"beetles.csv": "beetles"}),
        ("doi:10.5281/zenodo.7100001", "zenodo", "7100001", {"scan 1.png": "scan", "notes.csv.gz": "packed"}),
        ("https://repository.example.ac.at/records/f2k8q-9xw31", "invenio", "f2k8q-9xw31", {"pollen.csv": "pollen"}),
        (ITEM, "archive.org", "frog-calls-1998", {"calls/bufo bufo.wav": "calls", "list.csv": "list"}),
        ("10.5072/frogs", "archive.org", "frog-calls-1998", {"calls/bufo bufo.wav": "calls", "list.csv": "list"}),
        ("https://osf.io/frogs/", "osf", "frogs", {"list.csv": "list", "calls/bufo.wav": "calls"}),
        ("https://geodata.example.net/en/dataset/glacier-outlines", "json-ld", "doi:10.5072/glaciers",
         {"outlines.gpkg": "gpkg", "outlines.csv": "outlines"}),
        ("https://signs.example.org/object/42", "signposting", "https://doi.org/10.5072/signs42",
         {"a b.csv": "list", "Scan of the front": "scan"}),
    ],
)  # fmt: skip
async def test_a_dataset_is_listed_and_its_files_are_what_the_list_says(
    net: Internet, url: str, platform: str, platform_id: str, files: dict[str, str]
) -> None:
    result = await net.ask(url)
    assert (result.hit, result.status, result.warnings) == (True, SUCCESS, ()), result.error_message
    assert result.fileset is not None
    assert (result.fileset.platform, result.fileset.platform_id) == (platform, platform_id)
    assert {file.path: file.sha1hex for file in result.fileset.files} == {
        path: SHA1[name] for path, name in files.items()
    }
    assert set(outcomes(result).values()) == {SUCCESS}


async def test_a_hit_tells_the_landing_page_and_every_url_that_was_asked(net: Internet) -> None:
    result = await net.ask("https://doi.org/10.5281/zenodo.7100001")
    assert (result.terminal_url, result.terminal_status_code, result.terminal_sha1hex) == (ZENODO, 200, None)
    assert result.file_meta is None and result.via == "live"
    assert result.hops == (
        "https://doi.org/10.5281/zenodo.7100001",
        "https://zenodo.org/doi/10.5281/zenodo.7100001",
        ZENODO,
        "https://zenodo.org/api/records/7100001",
        "https://zenodo.org/api/records/7100001/files/scan%201.png/content",
        "https://zenodo.org/api/records/7100001/files/notes.csv.gz/content",
    )
    assert [(c.rule, c.url, c.outcome, c.status_code) for c in result.candidates] == [
        ("zenodo-api", "https://zenodo.org/api/records/7100001", SUCCESS, 200)
    ]


async def test_the_result_as_json_holds_the_manifest(net: Internet) -> None:
    fileset = (await net.ask(ZENODO)).to_json()["fileset"]
    assert (fileset["file_count"], fileset["total_size"]) == (2, len(FILES["scan"]) + len(FILES["packed"]))
    assert fileset["manifest"][0] == {
        "path": "scan 1.png",
        "size": 9,
        "checksums": {"md5": hashlib.md5(FILES["scan"]).hexdigest()},
        "mimetype": None,
        "url": "https://zenodo.org/api/records/7100001/files/scan%201.png/content",
        "status": SUCCESS,
        "sha1hex": SHA1["scan"],
    }


async def test_the_archive_is_asked_for_its_item_and_never_for_a_page(net: Internet) -> None:
    result = await net.ask(ITEM)
    assert result.terminal_url == "https://archive.org/metadata/frog-calls-1998"
    assert not [target for target in net.site.targets if target.startswith("/details")]
    for other in ("pdf", "html"):
        assert (await net.ask(ITEM, ingest_type=other)).status == "not-implemented"
        file = "https://archive.org/download/frog-calls-1998/calls/bufo%20bufo.wav"
        fetched = await net.ask(file, ingest_type=other)
        assert (fetched.status, fetched.hops[0]) == ("wrong-mimetype", file), "a file is fetched as what it is"


@pytest.mark.parametrize("url", ["https://web.archive.org/web/*/https://zenodo.org/", "https://archive.org/about/"])
async def test_other_pages_of_the_archive_are_refused_as_ever(net: Internet, url: str) -> None:
    result = await net.ask(url)
    assert (result.status, result.hops, net.site.targets) == ("not-implemented", (), [])


async def test_a_list_in_pages_is_read_to_its_end(net: Internet) -> None:
    result = await net.ask("https://datadryad.org/dataset/doi:10.5061/dryad.abc12")
    assert [c.url.rpartition("/")[2] for c in result.candidates] == [
        "doi%3A10.5061%2Fdryad.abc12",
        "files?per_page=100",
        "files?page=2",
    ]
    # Its list is open to everybody; its files are for programs that have signed in.
    assert (result.hit, result.warnings) == (True, ("platform-restricted",))
    assert outcomes(result) == {"beaks.csv": "platform-restricted"}


# What the API says instead


@pytest.mark.parametrize(
    ("said", "status", "retry"),
    [
        (js({"status": "ERROR", "message": "not found"}, status="404 Not Found"), "platform-404", RetryClass.LATER),
        (reply(status="410 Gone"), "platform-404", RetryClass.LATER),
        (js({"status": "ERROR"}, status="401 Unauthorized"), "platform-restricted", RetryClass.LATER),
        (reply(status="403 Forbidden"), "platform-restricted", RetryClass.LATER),
        (reply(status="400 Bad Request"), "platform-http-error", RetryClass.NEVER),
        (reply(status="503 Busy"), "platform-http-error", RetryClass.SOON),
        (reply(status="429 Slow"), "platform-http-error", RetryClass.SOON),
        (reply(status="429 Slow", headers={"Retry-After": "99999"}), "rate-limited", RetryClass.NOW),
        (Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}"), "truncated-body", RetryClass.SOON),
        (html("", "<h1>Welcome</h1>"), "platform-error", RetryClass.LATER),
        (js([]), "platform-error", RetryClass.LATER),
        (js({"files": [{"key": "a"}, 5]}), "platform-error", RetryClass.LATER),
        (js({"files": []}), "empty-manifest", RetryClass.LATER),
        (js({"files": [], "metadata": {"access_right": "closed"}}), "platform-restricted", RetryClass.LATER),
        (reply(b"[" * 100_000, content_type="application/json"), "platform-error", RetryClass.LATER),
    ],
)
async def test_what_an_api_says_decides_when_it_is_asked_again(
    net: Internet, said: Any, status: str, retry: RetryClass
) -> None:
    net.site.handlers["/api/records/7100001"] = said
    result = await net.ask(ZENODO)
    assert (result.hit, result.status, result.next_try_class) == (False, status, retry)
    assert result.terminal_url == ZENODO
    assert result.candidates[0].outcome == status or status == "empty-manifest"


async def test_one_closed_file_closes_the_dataset_and_the_list_is_kept(net: Internet) -> None:
    found = answer("dataverse.json")
    found["data"]["latestVersion"]["files"][0]["restricted"] = True
    net.site.handlers[DATAVERSE_API] = js(found)
    result = await net.ask(DATAVERSE)
    assert (result.hit, result.status) == (False, "platform-restricted")
    assert outcomes(result) == {"data/hourly/levels.dta": "platform-restricted", "README.txt": "not-tried"}
    assert "/api/access/datafile/7002" not in net.site.targets


async def test_a_page_says_itself_what_a_closed_api_does_not(net: Internet) -> None:
    net.site.handlers["/robots.txt"] = reply(b"User-agent: *\nDisallow: /api/datasets\n", content_type="text/plain")
    result = await net.ask(DATAVERSE, robots="obey", max_files=0)
    assert (result.hit, result.status, result.fileset and result.fileset.platform) == (True, SUCCESS, "json-ld")
    assert [(c.rule, c.outcome) for c in result.candidates] == [("dataverse-api", "blocked-robots")]
    assert outcomes(result) == dict.fromkeys(["levels.tab", "README.txt", "stations.csv"], "not-tried")


async def test_a_closed_api_without_a_word_on_the_page_is_the_reason(net: Internet) -> None:
    net.site.handlers["/robots.txt"] = reply(b"User-agent: *\nDisallow: /api\n", content_type="text/plain")
    assert (await net.ask(ZENODO, robots="obey")).status == "blocked-robots"


@pytest.mark.parametrize("status", ["403 Forbidden", "405 Not Allowed", "503 Busy", "202 Accepted"])
async def test_a_page_that_is_closed_to_robots_is_known_by_its_url(net: Internet, status: str) -> None:
    net.site.handlers["/records/7100001"] = reply(
        b"<h1>Go away</h1>" if status != "202 Accepted" else b"", status=status
    )
    result = await net.ask("10.5281/zenodo.7100001")
    api = "https://zenodo.org/api/records/7100001"
    assert (result.hit, result.terminal_url, result.terminal_status_code) == (True, api, 200)


async def test_a_page_that_robots_may_not_read_is_known_by_its_url(net: Internet) -> None:
    net.site.handlers["/robots.txt"] = reply(b"User-agent: *\nDisallow: /records\n", content_type="text/plain")
    result = await net.ask("10.5281/zenodo.7100001", robots="obey")
    assert (result.hit, result.terminal_url) == (True, "https://zenodo.org/api/records/7100001")
    assert "/records/7100001" not in net.site.targets


async def test_an_api_is_asked_for_json(net: Internet) -> None:
    await net.ask(ZENODO)
    accepted = {request.target: request.headers["accept"] for request in net.site.requests}
    assert accepted["/api/records/7100001"] == "application/json, */*;q=0.1"
    assert accepted["/records/7100001"].startswith("application/pdf,text/html")


async def test_a_page_that_is_gone_is_not_asked_about(net: Internet) -> None:
    del net.site.handlers["/records/7100001"]
    result = await net.ask(ZENODO)
    assert (result.status, result.terminal_status_code, result.fileset) == ("terminal-bad-status", 404, None)


async def test_a_list_that_leads_back_to_itself_ends(net: Internet) -> None:
    page = answer("dryad_files.json")
    page["_links"]["next"]["href"] = "/api/v2/versions/4711/files?per_page=100"
    net.site.handlers["/api/v2/versions/4711/files?per_page=100"] = js(page)
    result = await net.ask("https://datadryad.org/dataset/doi:10.5061/dryad.abc12")
    assert (result.status, "leads back" in str(result.error_message)) == ("platform-error", True)


async def test_a_list_without_end_ends(net: Internet, monkeypatch: pytest.MonkeyPatch) -> None:
    async def more(request: Request, writer: asyncio.StreamWriter) -> None:
        page = answer("dryad_files.json")
        page["_links"]["next"]["href"] = request.target + "1"
        writer.write(js(page))

    monkeypatch.setattr(collect, "MAX_ANSWERS", 6)
    net.site.handlers["/api/v2/versions/4711/files?per_page=100"] = more
    net.site.handlers["/api/v2/versions/4711/files"] = more
    result = await net.ask("https://datadryad.org/dataset/doi:10.5061/dryad.abc12")
    assert (result.status, len(result.candidates)) == ("too-many-files", 6)


async def test_a_list_of_a_million_files_is_refused(net: Internet) -> None:
    files = ",".join(['{"key":"a","size":1}'] * (collect.MAX_LISTED + 1))
    net.site.handlers["/api/records/7100001"] = reply(
        f'{{"files":[{files}]}}'.encode(), content_type="application/json"
    )
    assert (await net.ask(ZENODO)).status == "too-many-files"
    net.site.handlers["/api/records/7100001"] = reply(b" " * (collect.MAX_ANSWER_BYTES + 1))
    assert (await net.ask(ZENODO)).status == "body-too-large"


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("https://figshare.com/collections/Beetles/5001234", "platform-scope"),
        ("https://data.example.org/dataverse.xhtml", "platform-scope"),
        ("ftp://zenodo.org/records/1", "bad-scheme"),
        ("", "invalid-url"),
    ],
)
async def test_what_cannot_be_a_dataset_is_answered_without_a_request(net: Internet, url: str, status: str) -> None:
    result = await net.ask(url)
    assert (result.status, result.hops, result.via, net.site.targets) == (status, (), None, [])


# Pages


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (html("", "<h1>About us</h1><p>" + "words " * 60), "no-platform-match"),
        (html('<script type="application/ld+json">{"@type":"Dataset","name":"x"}</script>'), "empty-manifest"),
        (html("", "<h1>Page not found</h1>", title="Page not found"), "soft-404"),
        (html("", '<h1>Sign in</h1><form><input type="password"></form>', title="Sign in"), "blocked-wall"),
        (reply(b"%PDF-1.4\n1 0 obj\n", content_type="application/pdf"), "no-platform-match"),
        (reply(b'{"a": 1}', content_type="application/json"), "no-platform-match"),
    ],
)
async def test_a_page_without_a_list_says_why(net: Internet, body: bytes, status: str) -> None:
    net.site.handlers["/page"] = body
    result = await net.ask("https://h.example/page")
    assert (result.hit, result.status, result.terminal_url) == (False, status, "https://h.example/page")


async def test_a_document_of_json_ld_is_a_list_too(net: Internet) -> None:
    net.site.handlers["/about.json"] = js({"@type": "Dataset", "distribution": [{"contentUrl": "/object/42/scan.tif"}]})
    result = await net.ask("https://h.example/about.json")
    assert (result.status, outcomes(result)) == (SUCCESS, {"scan.tif": SUCCESS})


@pytest.mark.parametrize(
    ("link", "rule"),
    [
        ('</set>; rel="linkset"; type="application/linkset+json"', "linkset"),
        ('</about.json>; rel="describedby"; type="application/ld+json"', "describedby"),
    ],
)
async def test_a_page_may_refer_to_its_list(net: Internet, link: str, rule: str) -> None:
    net.site.handlers |= {
        "/page": reply(b"<h1>Object</h1>", headers={"Link": link}),
        "/set": js({"linkset": [{"anchor": "https://h.example/page", "item": [{"href": "/object/42/scan.tif"}]}]}),
        "/about.json": js({"@type": "Dataset", "distribution": [{"contentUrl": "/object/42/scan.tif"}]}),
    }
    result = await net.ask("https://h.example/page")
    assert (result.status, outcomes(result)) == (SUCCESS, {"scan.tif": SUCCESS})
    assert [(c.rule, c.outcome) for c in result.candidates] == [(rule, SUCCESS)]


async def test_a_reference_that_leads_nowhere_is_only_noted(net: Internet) -> None:
    link = '</gone>; rel="linkset"; type="application/linkset+json", </object/42/scan.tif>; rel=item'
    net.site.handlers["/page"] = reply(b"<h1>Object</h1>", headers={"Link": link})
    result = await net.ask("https://h.example/page")
    assert (result.hit, [(c.rule, c.outcome) for c in result.candidates]) == (True, [("linkset", "platform-404")])
    net.site.handlers["/gone"] = reply(status="503 Busy")
    assert (await net.ask("https://h.example/page")).next_try_class is RetryClass.SOON


# Files


def listing(net: Internet, *files: dict[str, Any]) -> str:
    """A page that lists these files; returns its URL."""
    text = json.dumps({"@type": "Dataset", "distribution": [{"@type": "DataDownload", **file} for file in files]})
    net.site.handlers["/listing"] = html(f'<script type="application/ld+json">{text}</script>')
    return "https://h.example/listing"


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({}, SUCCESS),
        ({"contentSize": 9, "sha256": hashlib.sha256(FILES["scan"]).hexdigest()}, SUCCESS),
        ({"contentSize": 8}, "mismatch-size"),
        ({"contentSize": 9, "sha256": "0" * 64}, "mismatch"),
        ({"contentUrl": "/nothing"}, "terminal-bad-status"),
        ({"contentUrl": "/forbidden"}, "platform-restricted"),
        ({"contentUrl": "/cut"}, "truncated-body"),
    ],
)
async def test_what_becomes_of_a_file_is_noted_with_it_and_beside_the_hit(
    net: Internet, said: dict[str, Any], status: str
) -> None:
    net.site.handlers["/forbidden"] = reply(status="403 Forbidden")
    net.site.handlers["/cut"] = Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabc")
    result = await net.ask(listing(net, {"name": "scan", "contentUrl": "/object/42/scan.tif", **said}))
    assert (result.hit, outcomes(result)) == (True, {"scan": status})
    assert result.warnings == (() if status == SUCCESS else (status,))


async def test_an_empty_file_may_be_meant(net: Internet) -> None:
    net.site.handlers["/empty"] = reply(b"")
    url = listing(
        net, {"name": "zero", "contentUrl": "/empty", "contentSize": 0}, {"name": "lost", "contentUrl": "/empty?2"}
    )
    result = await net.ask(url)
    assert outcomes(result) == {"zero": SUCCESS, "lost": "empty-blob"}
    assert files_of(result)[0].sha1hex == hashlib.sha1(b"").hexdigest()


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("javascript:alert(1)", "bad-scheme"),
        ("file:///etc/passwd", "bad-scheme"),
        ("", "platform-error"),
        ("https://www.facebook.com/data.csv", "skip-url-blocklist"),
        ("https://web.archive.org/web/*/https://h/", "not-implemented"),
        ("https://h.example/login?next=data.csv", "skip-wall"),
    ],
)
async def test_a_file_that_may_not_be_asked_for_is_a_gap_in_the_list(net: Internet, address: str, status: str) -> None:
    result = await net.ask(listing(net, {"contentUrl": "/object/42/scan.tif"}, {"name": "x", "contentUrl": address}))
    assert (result.hit, result.status) == (False, status)
    assert outcomes(result) == {"scan.tif": "not-tried", "x": status}
    assert net.site.targets == ["/listing"]


async def test_private_addresses_are_as_closed_as_ever(net: Internet) -> None:
    urls = ["https://10.0.0.1/a.csv", "http://169.254.169.254/latest/", "https://[::1]/"]
    result = await net.ask(listing(net, *({"name": url, "contentUrl": url} for url in urls)))
    assert {file.status for file in files_of(result)} == {"forbidden-address"}
    assert result.warnings == ("forbidden-address",)


async def test_passwords_in_addresses_are_used_and_not_shown(net: Internet) -> None:
    result = await net.ask(
        listing(net, {"name": "scan", "contentUrl": "https://me:secret@h.example/object/42/scan.tif"})
    )
    assert outcomes(result) == {"scan": SUCCESS}
    assert "authorization" in net.site.requests[-1].headers
    assert "secret" not in json.dumps(result.to_json())


async def test_nothing_is_fetched_beyond_the_limits_and_the_list_is_a_hit_all_the_same(net: Internet) -> None:
    many = await net.ask(ZENODO, max_files=1)
    large = await net.ask(ZENODO, max_fileset_bytes=20)
    none = await net.ask(ZENODO, max_files=0)
    for result, warnings in ((many, ("too-many-files",)), (large, ("too-large-size",)), (none, ())):
        assert (result.hit, result.warnings, set(outcomes(result).values())) == (True, warnings, {"not-tried"})
    assert not [target for target in net.site.targets if "/files/" in target]


async def test_sizes_that_nobody_knew_count_when_they_are_seen(net: Internet) -> None:
    url = listing(net, *({"name": str(n), "contentUrl": f"/object/42/scan.tif?{n}"} for n in range(3)))
    net.site.handlers["/object/42/scan.tif"] = reply(b"x" * 100)
    result = await net.ask(url, max_fileset_bytes=150)
    assert outcomes(result) == {"0": SUCCESS, "1": SUCCESS, "2": "not-tried"}
    assert result.warnings == ("too-large-size",)


async def test_a_file_that_is_larger_than_any_that_is_taken_is_not_begun(net: Internet) -> None:
    url = listing(
        net, {"name": "big", "contentUrl": "/big", "contentSize": 5000}, {"contentUrl": "/object/42/scan.tif"}
    )
    result = await net.ask(url, max_body_bytes=1000)
    assert outcomes(result) == {"big": "not-tried", "scan.tif": SUCCESS}
    assert (result.warnings, "/big" in net.site.targets) == (("too-large-size",), False)


async def test_a_large_file_is_never_held_in_memory(net: Internet) -> None:
    big = b"0123456789abcdef" * (5 * 65536)
    net.site.handlers["/big"] = reply(big, content_type="application/octet-stream")
    digest = hashlib.sha256(big).hexdigest()
    crawler = net.crawler(max_spool_bytes=6 * 1024 * 1024)
    url = listing(net, *({"name": str(n), "contentUrl": f"/big?{n}", "sha256": digest} for n in range(3)))
    result = await crawler.ingest(IngestRequest("dataset", url))
    # Each takes five sixths of the disk there is: the next one needs the one before to be closed.
    assert set(outcomes(result).values()) == {SUCCESS}
    assert crawler._client.spooled == 0


async def test_files_that_take_too_long_are_left(net: Internet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "FETCH_SECONDS", 0.3)
    net.site.handlers["/hang"] = Raw(b"", then="hang")
    names = ["/object/42/scan.tif", "/hang", "/object/42/a%20b.csv"]
    result = await net.ask(listing(net, *({"contentUrl": name} for name in names)), timeout=30, deadline=30)
    assert (result.hit, result.warnings) == (True, ("timeout",))
    assert outcomes(result) == {"scan.tif": SUCCESS, "hang": "not-tried", "a b.csv": "not-tried"}


async def test_a_pause_that_a_server_asks_for_is_waited_out_in_place(
    net: Internet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "FETCH_SECONDS", 0.5)
    net.site.handlers["/slow"] = reply(status="429 Slow", headers={"Retry-After": "120"})
    url = listing(net, {"contentUrl": "/slow"})
    result = await net.crawler().ingest(IngestRequest("dataset", url))
    assert (result.hit, result.warnings, outcomes(result)) == (True, ("timeout",), {"slow": "not-tried"})


async def test_a_long_pause_puts_off_a_row_whose_caller_has_no_patience_for_it(net: Internet) -> None:
    net.site.handlers["/slow"] = reply(status="429 Slow", headers={"Retry-After": "120"})
    crawler, url = net.crawler(patience=1.0), listing(net, {"contentUrl": "/slow"})
    with pytest.raises(PutOff):
        await crawler.ingest(IngestRequest("dataset", url))
    assert crawler._client.spooled == 0
    crawler.hosts.limiter(urls.split(url).host).back_off_until = 0.0
    result = await crawler.ingest(IngestRequest("dataset", url), back_offs=3)
    assert (result.hit, outcomes(result)) == (True, {"slow": "rate-limited"})


async def test_a_row_that_is_called_off_leaves_nothing_open(net: Internet) -> None:
    reached = asyncio.Event()

    async def hang(request: Request, writer: asyncio.StreamWriter) -> None:
        reached.set()
        await asyncio.Event().wait()

    net.site.handlers["/hang"] = hang
    crawler = net.crawler(timeout=30, deadline=30)
    call = asyncio.ensure_future(crawler.ingest(IngestRequest("dataset", listing(net, {"contentUrl": "/hang"}))))
    await reached.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert crawler._client.under_way == 0


# Decisions


def test_a_list_is_complete_when_every_file_can_be_had() -> None:
    fine = FileEntry("a", "https://h/a")
    assert collect.incomplete_reason(Fileset("x", None, (fine, fine))) is None
    for status in ("platform-restricted", "bad-scheme", "platform-error", "invalid-url", "skip-wall"):
        gap = collect.incomplete_reason(Fileset("x", None, (fine, FileEntry("b", None, status=status))))
        assert gap is not None and gap.status == status and status in STATUSES
    both = (FileEntry("b", status="bad-scheme"), FileEntry("c", status="platform-restricted"))
    gap = collect.incomplete_reason(Fileset("x", None, both))
    assert gap is not None and gap.status == "platform-restricted"


def test_the_total_is_known_when_every_size_is() -> None:
    assert Fileset("x", None, (FileEntry("a", size=1), FileEntry("b", size=2))).total_size == 3
    assert Fileset("x", None, (FileEntry("a", size=1), FileEntry("b"))).total_size is None


async def test_a_page_may_refer_to_a_few_link_sets_only(net: Internet) -> None:
    sets = ", ".join(f'</set/{number}>; rel="linkset"; type="application/linkset+json"' for number in range(40))
    net.site.handlers["/page"] = reply(b"<h1>Object</h1>", headers={"Link": sets})
    result = await net.ask("https://h.example/page")
    asked = [request.target for request in net.site.requests if request.target.startswith("/set/")]
    assert (result.hit, asked) == (False, [f"/set/{number}" for number in range(manifest.MAX_REFERRED)])


async def test_what_a_dataset_calls_itself_can_be_stored_and_holds_nobodys_password(net: Internet) -> None:
    node = {
        "@type": "Dataset",
        "identifier": "\ud800 https://u:secret@h.example/" + "x" * 2000,
        "distribution": [
            {"contentUrl": "https://u:secret@h.example/object/42/scan.tif", "name": "http://u:secret@h/a"}
        ],
    }
    page = f'<script type="application/ld+json">{json.dumps(node)}</script><h1>Object</h1>'
    net.site.handlers["/page"] = reply(page.encode())
    result = await net.ask("https://h.example/page")
    stored = json.dumps(result.fileset.to_json(), ensure_ascii=False).encode()
    assert result.hit
    assert b"secret" not in stored
    assert len(result.fileset.platform_id) <= crawl_state.MAX_PLATFORM_ID
