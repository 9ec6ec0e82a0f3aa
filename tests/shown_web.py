"""The web that the documentation speaks of: every host that its examples name, on one loopback server."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from datasette_ingest.demo.site import Reply, answering, make_pdf
from datasette_ingest.ingest.errors import InvalidHostResolution
from datasette_ingest.ingest.http import client, service
from datasette_ingest.ingest.http.connect import Connector
from datasette_ingest.ingest.http.politeness import ServiceRates
from datasette_ingest.ingest.urls import UrlParts, split

from .ingest.fetch.fakes.archive import QUICK, ArchiveTransport, FakeArchive


def page(title: str, body: str = "", head: str = "", status: int = 200) -> Reply:
    text = f"<!doctype html><html lang=en><head><title>{title}</title>{head}</head><body><h1>{title}</h1>{body}</body></html>"
    return Reply(text.encode("utf-8"), status=status)


def pdf(title: str) -> Reply:
    return Reply(make_pdf(title), "application/pdf")


def moved(location: str) -> Reply:
    return Reply(status=302, headers={"Location": location})


def names_pdf(address: str) -> str:
    return f'<meta name="citation_pdf_url" content="{address}">'


def _article(title: str, address: str) -> dict[str, Reply]:
    """A landing page that names its PDF in a tag of its head."""
    return {"landing": page(title, "<p>An abstract.</p>", names_pdf(address)), "file": pdf(title)}


SIGN_IN = page(
    "Sign in",
    '<form method="post"><label>User <input name="user"></label><label>Password <input name="password" type="password">'
    "</label><button>Sign in</button></form>",
)

README = b"Read it all\n"
LEVELS = b"n,species\n1"

DATAVERSE_ANSWER = {
    "status": "OK",
    "data": {
        "datasetPersistentId": "doi:10.5072/FK2/TIDES",
        "latestVersion": {
            "datasetPersistentId": "doi:10.5072/FK2/TIDES",
            "versionState": "RELEASED",
            "files": [
                {
                    "label": name,
                    "restricted": False,
                    "dataFile": {
                        "id": number,
                        "filename": name,
                        "filesize": len(content),
                        "contentType": "text/plain",
                        "checksum": {"type": "MD5", "value": hashlib.md5(content).hexdigest()},
                    },
                    **({"directoryLabel": folder} if folder else {}),
                }
                for number, folder, name, content in (
                    (7001, "", "README.txt", README),
                    (7002, "data", "levels.csv", LEVELS),
                )
            ],
        },
    },
}

TIDES = _article("Tides in small harbours", "/files/tides.pdf")
MOSSES = _article("A key to the mosses of old walls", "/keys/mosses.pdf")

WEB: dict[str, Reply] = {
    "example.org/files/herons.pdf": pdf("Herons of the lower river"),
    "example.org/articles/tides": TIDES["landing"],
    "example.org/files/tides.pdf": TIDES["file"],
    "example.org/articles/salt": page("Prices of salt, 1600–1650", "", names_pdf("/members/salt.pdf")),
    "example.org/members/salt.pdf": moved("/login"),
    "example.org/login": SIGN_IN,
    "example.org/articles/rain": page(
        "Rain in small towns",
        '<p><a href="/download/rain">Download PDF</a></p>',
        names_pdf("https://example.org/old/rain.pdf"),
    ),
    "example.org/download/rain": pdf("Rain in small towns"),
    "repository.example.edu/item/7": page(
        "Lichens on slate roofs",
        '<p><a class="get-it" href="/bitstream/7/1">Get the file</a></p><p><a href="/help">Help</a></p>',
    ),
    "repository.example.edu/bitstream/7/1": pdf("Lichens on slate roofs"),
    "doi.org/10.5555/mosses": moved("https://journal.example.net/keys/mosses"),
    "journal.example.net/keys/mosses": MOSSES["landing"],
    "journal.example.net/keys/mosses.pdf": MOSSES["file"],
    "doi.org/10.5555/tides": moved("https://example.org/articles/tides"),
    "doi.org/10.5555/salt": moved("https://example.org/articles/salt"),
    "doi.org/10.5555/nowhere": page("DOI Not Found", status=404),
    "doi.org/10.5072/fk2/tides": moved("https://data.example.org/dataset.xhtml?persistentId=doi:10.5072/FK2/TIDES"),
    "data.example.org/dataset.xhtml?persistentId=doi:10.5072/FK2/TIDES": page("Tide levels"),
    "data.example.org/api/datasets/:persistentId/?persistentId=doi%3A10.5072%2FFK2%2FTIDES": Reply(
        json.dumps(DATAVERSE_ANSWER).encode(), "application/json"
    ),
    "data.example.org/api/access/datafile/7001": Reply(README, "text/plain"),
    "data.example.org/api/access/datafile/7002": Reply(LEVELS, "text/csv"),
}
"""Host and path, with its query -> what is there. The hosts named here have an address; all others have none."""

HOSTS = frozenset(address.partition("/")[0] for address in WEB)


def archive() -> FakeArchive:
    """The captures that there are."""
    past = FakeArchive()
    past.add("https://gone.example/winds.pdf", "20190304050607", make_pdf("The winds of a small island"))
    return past


@contextlib.contextmanager
def shown_web(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """While the block lasts every crawler of this process meets this web, at any pace: whatever the scheme, the bytes go
    to the loopback server in the clear. Nothing else of the crawler is replaced."""
    missing = page("Not here", status=404)
    with answering(lambda host, path: WEB.get(host + path, missing)) as base:
        port = split(base).port

        async def connect(self: Connector, parts: UrlParts, make: Callable[[], Any]) -> Any:
            if parts.host not in HOSTS:
                raise InvalidHostResolution(f"the host {parts.host} has no address")
            _, connection = await asyncio.get_running_loop().create_connection(make, "127.0.0.1", port)
            return connection

        def ask_archive(**_: Any) -> ArchiveTransport:
            return ArchiveTransport(archive(), host="web.archive.org")

        hosts, rates = client.Hosts, ServiceRates.hosts

        def at_any_pace(self: ServiceRates, name: str, **given: Any) -> client.Hosts:
            return rates(self, name, **{**given, "per_minute": QUICK})

        monkeypatch.setattr(service.httpx, "AsyncHTTPTransport", ask_archive)
        monkeypatch.setattr(ServiceRates, "hosts", at_any_pace)
        monkeypatch.setattr(Connector, "connect", connect)
        monkeypatch.setattr(client, "Hosts", lambda **given: hosts(**{**given, "delay": 0.0}))
        yield
