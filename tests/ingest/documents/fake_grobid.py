"""GROBID's web service, played without a socket: every answer that it is known to give, one after the other."""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import httpx

from datasette_ingest.ingest.http.service import Service, service_client

TEI = b"""<?xml version="1.0" encoding="UTF-8"?>
<TEI xml:space="preserve" xmlns="http://www.tei-c.org/ns/1.0">
<teiHeader xml:lang="en"><fileDesc><titleStmt><title level="a" type="main">On salt</title></titleStmt>
<publicationStmt><publisher/><date type="published" when="2019-03-07">7 March 2019</date></publicationStmt>
<sourceDesc><biblStruct><analytic>
<author role="corresp"><persName><forename type="first">Ada</forename><surname>Byron</surname></persName>
<email>ada@university.example</email><idno type="ORCID">0000-0002-1825-0097</idno>
<affiliation key="aff0"><note type="raw_affiliation">1 Salt Lab, Sea University</note>
<orgName type="laboratory">Salt Lab</orgName><orgName type="institution">Sea University</orgName>
<address><settlement>Brest</settlement><country key="FR">France</country></address></affiliation></author>
<author><persName><forename type="first">Li</forename><surname>Wei</surname></persName></author>
<title level="a" type="main">On salt</title></analytic>
<monogr><title level="j" type="main">Journal of Brine</title><imprint><biblScope unit="volume">4</biblScope>
<date type="published" when="2019-03-07"/></imprint></monogr>
<idno type="DOI">10.5555/Salt.4</idno><idno type="fatcat">release_abcdefghijklmnopqrstuvwxyz</idno></biblStruct></sourceDesc></fileDesc>
<encodingDesc><appInfo><application version="0.8.1" ident="GROBID" when="2026-11-30T10:00+0000"/></appInfo></encodingDesc>
<profileDesc><abstract><p>Salt is salt.</p></abstract></profileDesc></teiHeader>
<text xml:lang="en"><body><div><p>Salt.</p></div></body><back><div type="references"><listBibl>
<biblStruct xml:id="b0"><analytic><title level="a">Older salt</title></analytic><idno type="DOI">10.5555/old</idno></biblStruct>
<biblStruct xml:id="b1"/></listBibl></div></back></text></TEI>
"""

HANG = "hang"
LOST = "lost"
REFUSED = "refused"


def answer(status: int, body: bytes | str = b"", content_type: str = "text/plain", **headers: str) -> httpx.Response:
    names = {"content-type": content_type, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return httpx.Response(status, headers=names, content=body)


def tei(body: bytes = TEI) -> httpx.Response:
    return answer(200, body, "application/xml")


def json_error(kind: str, message: str) -> httpx.Response:
    return answer(500, json.dumps({"type": kind, "message": message}), "application/json")


@dataclass
class FakeGrobid(httpx.AsyncBaseTransport):
    """Gives `answers` about PDFs one after the other, the last one for ever: a response, HANG, LOST or REFUSED."""

    answers: Iterable[httpx.Response | str] = ()
    version: httpx.Response | str = field(default_factory=lambda: answer(200, '{"version":"0.8.1","revision":"x"}'))
    files: list[bytes] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    seconds: float = 0.0
    """How long it reads a file."""
    versions_asked: int = 0

    def __post_init__(self) -> None:
        self._left = deque(self.answers)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/api/version":
            self.versions_asked += 1
            return await self._play(self.version)
        assert (request.method, request.url.path) == ("POST", "/api/processFulltextDocument")
        body = await request.aread()
        assert int(request.headers["content-length"]) == len(body) and "transfer-encoding" not in request.headers
        boundary = request.headers["content-type"].partition("boundary=")[2].encode()
        form = {}
        for part in body.split(b"--" + boundary)[1:-1]:
            head, _, content = part.partition(b"\r\n\r\n")
            found = re.search(rb'name="([^"]*)"', head)
            assert found is not None
            name, content = found[1].decode(), content.removesuffix(b"\r\n")
            if b"filename=" in head:
                assert name == "input" and b"Content-Type: application/pdf" in head
                self.files.append(content)
            else:
                form[name] = content.decode()
        self.forms.append(form)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.seconds)
            return await self._play(self._left.popleft() if len(self._left) > 1 else self._left[0])
        finally:
            self.at_once -= 1

    async def _play(self, given: httpx.Response | str) -> httpx.Response:
        if given == HANG:
            await asyncio.Event().wait()
        if given == LOST:
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        if given == REFUSED:
            raise httpx.ConnectError("All connection attempts failed")
        assert isinstance(given, httpx.Response)
        return httpx.Response(given.status_code, headers=given.headers, content=given.content)

    def service(self) -> Service:
        return Service(service_client("http://grobid.example", user_agent="x", timeout=5, transport=self))
