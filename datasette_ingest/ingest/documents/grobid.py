"""The processor that gives PDFs to GROBID, where `grobid_url` names one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ..facts import Grobid
from ..files import PDF, TEI
from ..http.body import Body
from ..http.waiting import wait_idle
from ..model import MIB
from ..settings import CrawlSettings
from ..sinks.layout import key_of
from .base import DerivedFile, Document, Findings, ProcessContext, Processor
from .grobid_api import MAX_TEI_CHARACTERS, NO_ANSWER, GrobidApi, Unavailable
from .pool import ProcessError, ProcessPool
from .tei import read_tei

NAME, VERSION = "grobid", "1"
LABEL = f"{NAME}/{VERSION}"


def processor(settings: CrawlSettings) -> Processor | None:
    if settings.grobid_url is None:
        return None
    api = GrobidApi(settings)
    reader = PdfReader(api, has_store=settings.store is not None)

    async def process(document: Document, context: ProcessContext) -> Findings | None:
        """A service that reads nothing now is a fact, too: the file was found, and is given to it later."""
        try:
            if is_current(await context.stored(Grobid.table, context.sha1hex), await api.version()):
                return None
            return await reader.read(document.body, context.sha1hex, context.pool)
        except Unavailable as problem:
            metadata = {"error_message": str(problem)}
            status = "error-timeout" if problem.status_code == NO_ANSWER else "error"
            return Findings((_fact(context.sha1hex, status, problem.status_code, metadata=metadata),))

    return Processor(NAME, VERSION, frozenset({PDF}), process, tables=(Grobid.table,), aclose=api.aclose)


def is_current(stored: Mapping[str, Any] | None, version: str | None) -> bool:
    """Whether a row of the table of facts is what GROBID of this version would say."""
    return (
        stored is not None
        and stored["status"] == "success"
        and stored["processor"] == LABEL
        and version in (None, stored["grobid_version"])
    )


class PdfReader:
    """Asks GROBID once for rows with the same file: while its answer is under way, and until they find it stored.

    :param has_store: whether the TEI will be kept
    """

    MOST_KEPT = 16
    MOST_BYTES = 1 * MIB
    """Of the TEI of an answer that is kept."""

    def __init__(self, api: GrobidApi, *, has_store: bool) -> None:
        self.api = api
        self._has_store = has_store
        self._open: dict[str, asyncio.Future[Findings | None]] = {}
        self._kept: dict[str, Findings] = {}

    async def read(self, body: Body, sha1hex: str, pool: ProcessPool, *, again: bool = False) -> Findings:
        """As `ask`.

        :param again: an answer that is kept is not used
        """
        while (running := self._open.get(sha1hex)) is not None:
            shared = await wait_idle(asyncio.shield(running))
            if shared is not None:
                return shared
        if sha1hex in self._kept and not again:
            return self._kept[sha1hex]
        future: asyncio.Future[Findings | None] = asyncio.get_running_loop().create_future()
        self._open[sha1hex] = future
        found = None
        try:
            found = await ask(self.api, body, sha1hex, pool, has_store=self._has_store)
        finally:  # without an answer, the next row that waits asks
            del self._open[sha1hex]
            future.set_result(found)
        self._kept.pop(sha1hex, None)
        if found.files and len(found.files[0].content) <= self.MOST_BYTES:
            self._kept[sha1hex] = found
            if len(self._kept) > self.MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        return found


async def ask(api: GrobidApi, body: Body, sha1hex: str, pool: ProcessPool, *, has_store: bool) -> Findings:
    """What GROBID says of a PDF, whose body is open: a fact in every case, and with success the TEI.

    :param has_store: whether the TEI will be kept
    :raises Unavailable: when it cannot be asked now
    """
    version = await api.version()
    answer = await api.read_pdf(body)
    if answer.status != "success":
        said = {"error": answer.kind, "error_message": answer.message}
        metadata = {name: value for name, value in said.items() if value}
        return Findings((_fact(sha1hex, answer.status, answer.status_code, version=version, metadata=metadata),))
    try:
        read = await pool.run(read_tei, answer.tei, MAX_TEI_CHARACTERS)
        problem = read.problem
    except ProcessError as ended:
        problem = f"the answer cannot be read: {ended}"
    if problem is not None:
        metadata = {"error_message": problem}
        return Findings((_fact(sha1hex, "bad-grobid-xml", 200, version=version, metadata=metadata),))
    fact = _fact(
        sha1hex,
        "success",
        200,
        version=version or read.version,
        metadata=read.metadata,
        fatcat_release=read.fatcat_release,
        xml_url=key_of("tei", sha1hex, TEI) if has_store else None,
    )
    return Findings((fact,), (DerivedFile("tei", TEI, answer.tei),))


def _fact(sha1hex: str, status: str, status_code: int | None, *, version: str | None = None, **known: Any) -> Grobid:
    return Grobid(sha1hex, status, status_code, grobid_version=version, processor=LABEL, **known)
