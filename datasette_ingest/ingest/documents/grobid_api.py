"""GROBID's web service: what is asked, and what its answers mean.

Source: https://grobid.readthedocs.io/en/latest/Grobid-service/ (versions 0.7 to 0.9).
"""

from __future__ import annotations

import asyncio
import json
import re
import weakref
from dataclasses import dataclass
from typing import Any

from ..files import PDF
from ..http.body import Body
from ..http.service import (
    AnswerTooLong,
    NoAnswerInTime,
    Service,
    ServiceAnswer,
    ServiceFailure,
    Unreachable,
    Upload,
    service_client,
)
from ..http.waiting import wait_idle
from ..model import MIB
from ..settings import CrawlSettings
from ..urls import mask

MAX_PDF_BYTES = 256 * MIB
MAX_TEI_CHARACTERS = 12_000_000
BUSY_PAUSES = (5.0, 10.0, 10.0, 20.0)
"""Seconds before each further try while it says that it is busy."""
LONGEST_PAUSE = 20.0
"""Of those that it asks for itself. A longer one is its caller's to wait for."""
REST_SECONDS = 60.0
"""How long it is left alone when it could not be reached, or was silent SILENT_MOST times in a row."""
SILENT_MOST = 2
BUSY_SECONDS = 60.0
MAX_WAITING = 100
"""Files that wait for a place at once: each of them is open."""
VERSION_SECONDS = 3600.0
NO_ANSWER = -4
"""What stands for an HTTP status where no answer came in time."""
KINDS = (
    *("BAD_INPUT_DATA", "NO_BLOCKS", "TOO_MANY_BLOCKS", "TOO_MANY_TOKENS", "TIMEOUT", "TAGGING_ERROR"),
    *("PARSING_ERROR", "PDFALTO_CONVERSION_FAILURE", "GENERAL"),
)
_KIND = re.compile(rf"\b({'|'.join(KINDS)})\b")
_SHOWN = 300
"""Characters of a message that are shown."""
_ABSENT = frozenset({502, 504})
"""What a proxy answers where the service behind it is down."""
_MISPLACED = frozenset({401, 403, 404, 405, 407})
"""What is answered where there is no GROBID, or not for us."""


class Unavailable(Exception):
    """The service reads no file now: nothing is said of this one. The message is a sentence.

    :param status_code: the HTTP status of its answer; NO_ANSWER if none came in time; None if it was not asked
    :param seconds: after which another try is worth it; None: a person has to mend something
    :param is_busy: it works, on other files
    """

    def __init__(
        self, message: str, *, status_code: int | None = None, seconds: float | None = None, is_busy: bool = False
    ) -> None:
        super().__init__(mask(message))
        self.status_code = status_code
        self.seconds = seconds
        self.is_busy = is_busy


@dataclass(frozen=True)
class Answer:
    """What it made of one PDF. `status` is `success` where `tei` has the bytes that came, not read yet."""

    status: str
    status_code: int | None = None
    kind: str | None = None
    """Of an error: one of KINDS."""
    message: str | None = None
    tei: bytes = b""


@dataclass
class _Gate:
    """What all of this process that ask one service share. Mutable."""

    places: asyncio.Semaphore
    waiting: int = 0
    rests_until: float = 0.0
    """In the loop's time."""
    reason: str = ""
    silent: int = 0
    """Files in a row without an answer in time."""
    version: str | None = None
    version_until: float = 0.0
    """In the loop's time: it is asked for again then, and after a failure."""

    def rest(self, now: float, reason: str) -> None:
        self.rests_until, self.reason, self.version_until = now + REST_SECONDS, reason, 0.0


_GATES: weakref.WeakKeyDictionary[Any, dict[str, _Gate]] = weakref.WeakKeyDictionary()


class GrobidApi:
    """Asks the service of these settings. Connects when it is first used; all methods raise Unavailable.

    :param service: is asked instead, in tests
    """

    def __init__(self, settings: CrawlSettings, *, service: Service | None = None) -> None:
        assert settings.grobid_url is not None
        self._settings = settings
        self._url = settings.grobid_url
        self._connected = service

    async def version(self) -> str | None:
        """Its version, as it says; None where it does not say."""
        loop, gate = asyncio.get_running_loop(), self._gate()
        if loop.time() < gate.version_until:
            return gate.version
        self._check_rest(gate)
        try:
            answer = await asyncio.wait_for(self._service().ask("GET", "/api/version"), self._settings.timeout)
        except (ServiceFailure, asyncio.TimeoutError) as problem:
            raise self._down(gate, str(problem) or "no answer in time") from None
        if answer.status == 503:
            raise Unavailable(
                "GROBID is busy", status_code=503, seconds=answer.retry_after or BUSY_SECONDS, is_busy=True
            )
        self._check_place(gate, answer)
        gate.version = version_of(answer.content) if answer.status == 200 else None
        gate.version_until = loop.time() + VERSION_SECONDS
        return gate.version

    async def read_pdf(self, body: Body) -> Answer:
        """What it makes of a PDF, whose body is open. Waits for a place, and while it is busy, for a limited time."""
        if body.size > MAX_PDF_BYTES:
            return Answer("blob-too-large", message=f"the file has more than {MAX_PDF_BYTES // MIB} MiB")
        gate = self._gate()
        self._check_rest(gate)
        if gate.waiting >= MAX_WAITING:
            raise Unavailable(f"{gate.waiting} files wait for GROBID", seconds=BUSY_SECONDS, is_busy=True)
        gate.waiting += 1
        try:
            await wait_idle(gate.places.acquire())
        finally:
            gate.waiting -= 1
        try:
            return await self._read_pdf(gate, body)
        finally:
            gate.places.release()

    async def aclose(self) -> None:
        if self._connected is not None:
            await self._connected.aclose()

    async def _read_pdf(self, gate: _Gate, body: Body) -> Answer:
        for pause in (*BUSY_PAUSES, None):
            self._check_rest(gate)
            try:
                answer = await self._send(body)
            except AnswerTooLong as problem:
                return Answer("error", problem.status, message=f"GROBID: {problem}")
            except NoAnswerInTime as problem:
                gate.silent += 1
                if gate.silent >= SILENT_MOST:
                    gate.rest(asyncio.get_running_loop().time(), "it did not answer in time")
                return Answer("error-timeout", NO_ANSWER, message=f"GROBID: {problem}")
            except Unreachable as problem:
                raise self._down(gate, str(problem)) from None
            except ServiceFailure as problem:
                # Perhaps the file itself has ended the service: it is not to be the first one again after each start.
                return Answer("error", message=f"GROBID ended the connection: {mask(str(problem))[:_SHOWN]}")
            gate.silent = 0
            if answer.status not in (429, 503):
                self._check_place(gate, answer)
                return answer_of(answer)
            asked = answer.retry_after or 0.0
            if pause is None or asked > LONGEST_PAUSE:
                break
            await wait_idle(asyncio.sleep(max(pause, asked)))
        raise Unavailable("GROBID is busy", status_code=answer.status, seconds=max(asked, BUSY_SECONDS), is_busy=True)

    async def _send(self, body: Body) -> ServiceAnswer:
        asked = [("consolidateHeader", str(self._settings.grobid_consolidate)), ("includeRawAffiliations", "1")]
        return await self._service().send_file(
            "/api/processFulltextDocument",
            Upload("input", "document.pdf", PDF, body),
            data=asked,
            seconds=self._settings.grobid_timeout,
            max_bytes=4 * MAX_TEI_CHARACTERS,
        )

    def _gate(self) -> _Gate:
        gates = _GATES.setdefault(asyncio.get_running_loop(), {})
        if self._url not in gates:
            gates[self._url] = _Gate(asyncio.Semaphore(self._settings.grobid_concurrency))
        return gates[self._url]

    def _service(self) -> Service:
        if self._connected is None:
            client = service_client(
                self._url,
                user_agent=self._settings.full_user_agent,
                timeout=self._settings.timeout,
                headers={"Accept": "application/xml, application/json;q=0.5, */*;q=0.1"},
            )
            self._connected = Service(client)
        return self._connected

    def _check_rest(self, gate: _Gate) -> None:
        left = gate.rests_until - asyncio.get_running_loop().time()
        if left > 0:
            raise Unavailable(f"GROBID is not asked for a minute: {gate.reason}", seconds=left)

    def _check_place(self, gate: _Gate, answer: ServiceAnswer) -> None:
        """:raises Unavailable: for an answer that says nothing of a file"""
        if answer.status in _ABSENT:
            raise self._down(gate, f"it answers {answer.status}", answer.status)
        if answer.status in _MISPLACED or 300 <= answer.status < 400:
            message = f"There is no GROBID at {mask(self._url)}: the answer is {answer.status}. Check grobid_url"
            raise Unavailable(message, status_code=answer.status)

    def _down(self, gate: _Gate, reason: str, status_code: int | None = None) -> Unavailable:
        reason = mask(reason)[:_SHOWN]
        gate.rest(asyncio.get_running_loop().time(), reason)
        return Unavailable(f"GROBID cannot be reached: {reason}", status_code=status_code, seconds=REST_SECONDS)


def version_of(content: bytes) -> str | None:
    """The version that an answer of /api/version tells: of JSON its `version`, else the text itself."""
    text = content[:_SHOWN].decode("utf-8", "replace").strip()
    try:
        read = json.loads(text)
    except ValueError:
        read = text
    found = read.get("version") if isinstance(read, dict) else read
    found = str(found).strip() if isinstance(found, (str, float, int)) else ""
    return found if re.fullmatch(r"[\w.+-]{1,40}", found) else None


def answer_of(answer: ServiceAnswer) -> Answer:
    """The meaning of an answer about a file."""
    if answer.status == 200:
        return Answer("success", 200, tei=answer.content)
    if answer.status == 204:
        return Answer("error", 204, message="GROBID found nothing in the file")
    text = answer.content[:20_000].decode("utf-8", "replace")
    kind = _KIND.search(text)
    return Answer(
        "error", answer.status, kind[1] if kind else None, _message(text) or f"GROBID answers {answer.status}"
    )


def _message(text: str) -> str:
    """What an error's text or JSON says, on one line."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        read = None
    if isinstance(read, dict):
        said = (read.get(name) for name in ("message", "description", "error"))
        text = next((found for found in said if isinstance(found, str) and found.strip()), text)
    elif text.lstrip()[:1] == "<":
        return ""
    return mask(" ".join(text.split()))[:_SHOWN]
