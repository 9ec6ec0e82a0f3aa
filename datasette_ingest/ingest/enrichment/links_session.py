"""One row's link, checked: what other rows know of it, the second look at a host that is gone, the capture of a dead link."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from ... import compat
from ..cells import cell_key
from ..errors import IngestError, InvalidUrl, PutOff
from ..fetch.memory import Memory
from ..fetch.wayback import timestamp_of
from ..linkcheck.verdict import LinkStatus, Verdict, retry_of
from ..store.links import StoredLink, as_stored, stored_link
from ..urls import clean_cell, mask
from .links_config import LinksConfig
from .session import KEPT, Session, SharedAnswers, utc_now

UNREACHABLE = "unreachable "
"""Before an origin: under this key it is remembered when it had no address, or refused connections, first."""
REMEMBERED = timedelta(days=1)
"""How long after the second look is due that is remembered; then the host gets a first look again."""
PLACEHOLDERS = frozenset({"", "-", "–", "—", "n/a", "na", "none", "null", "nan", "?"})
"""What stands in cells that hold nothing."""
DEAD = "dead "
"""Before a link: under this key a verdict is kept while the link waits for its turn at the archive's index."""


@dataclass(frozen=True)
class Checked:
    """One check: what is stored of it from now on, and when it ended. `result` is the verdict, None where the link was
    checked before by the same job."""

    link: StoredLink
    result: Verdict | None = None
    at: datetime | None = None


class LinkCheck:
    """Checks the links of one job's rows in this process."""

    def __init__(
        self,
        session: Session,
        answers: SharedAnswers[Checked],
        config: LinksConfig,
        *,
        asks_archive: bool,
        doi_resolver: str,
    ) -> None:
        self._session = session
        self._answers = answers
        self._config = config
        self._asks_archive = asks_archive
        self._doi_resolver = doi_resolver

    async def check(self, cell: Any, date: Any, job: Any, db: Any, memory: Memory) -> Checked | None:
        """The check of a cell's link; None for a cell without one.

        :param date: the cell of the date column
        :raises PutOff: while the row waits: for a host's turn, for the second look at a host, for the archive's index
        """
        if is_blank(cell):
            return None
        near = _near(date)
        stored = await compat.read(db, lambda conn: stored_link(conn, cell))
        if stored is not None and stored.job_id == job.id and not (near and stored.status == LinkStatus.DEAD.value):
            return Checked(stored)

        async def check_now() -> Checked:
            verdict = await self._verdict(cell, near, job, memory)
            now = utc_now()
            link = as_stored(verdict, before=stored, job_id=job.id, now=now)
            return Checked(link, verdict, now)

        def is_usable(checked: Checked) -> bool:
            return checked.at is not None and checked.link.job_id == job.id and utc_now() < checked.at + KEPT

        return await self._answers.get((db.name, job.id, cell_key(cell), near), check_now, is_usable)

    async def _verdict(self, cell: Any, near: str | None, job: Any, memory: Memory) -> Verdict:
        try:
            href = clean_cell(cell, doi_resolver=self._doi_resolver)
        except IngestError as error:
            if isinstance(error, InvalidUrl):
                return Verdict(LinkStatus.DEAD, reason=error.message)
            return Verdict(LinkStatus.UNSURE, reason=error.message, retry=retry_of(error))
        key = DEAD + mask(href)
        waiting = await memory.get(key) if self._asks_archive else None
        if waiting is None:
            verdict = await self._looked_twice(href, job, memory)
        else:
            status, url, code, reason = waiting
            verdict = Verdict(LinkStatus(status), url, code, reason=reason)
        if not self._asks_archive or verdict.status is not LinkStatus.DEAD:
            return verdict
        try:
            capture = await self._session.shared.crawler.links.capture_of(href, near)
        except PutOff:
            kept = [verdict.status.value, verdict.url, verdict.code, verdict.reason]
            memory.keep(key, kept, seconds=REMEMBERED.total_seconds())
            raise
        except IngestError as error:
            return replace(verdict, reason=f"{verdict.reason}; {error.message}")
        memory.forget(key)
        return replace(verdict, archive_url=capture)

    async def _looked_twice(self, href: str, job: Any, memory: Memory) -> Verdict:
        """The verdict, which calls a host dead only if it was so before, long enough ago.

        :raises PutOff: until the second look
        """
        verdict = await self._session.shared.crawler.links.check(
            href, reads_pages=self._config.read_pages, back_offs=job.deferrals
        )
        if verdict.unreachable is None:
            if verdict.reached is not None and memory.is_lasting:
                memory.forget(UNREACHABLE + verdict.reached)
            return verdict
        key, apart = UNREACHABLE + verdict.unreachable, timedelta(minutes=self._config.recheck_minutes).total_seconds()
        if not memory.is_lasting:
            later = f"a job asks again after {self._config.recheck_minutes:g} minutes before it calls the link dead"
            return replace(verdict, status=LinkStatus.UNSURE, reason=f"{verdict.reason}; {later}")
        now = utc_now().timestamp()
        first = await memory.get(key)
        if first is None or not now - first >= 0:
            memory.keep(key, now, seconds=apart + REMEMBERED.total_seconds())
            first = now
        left = first + apart - now
        if left > 0:
            raise PutOff(
                left, f"Second look at hosts that cannot be reached ({apart / 60:g} minutes later)", counts=False
            )
        return verdict


def is_blank(cell: Any) -> bool:
    """Whether a cell holds no link, as people write it."""
    if cell is None:
        return True
    text = cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)
    return text.strip().lower() in PLACEHOLDERS


def _near(cell: Any) -> str | None:
    """The time that a cell of dates says, as a timestamp; None where it says none."""
    if cell is None or isinstance(cell, bytes):
        return None
    text = str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
    try:
        return timestamp_of(text)
    except ValueError:
        return None
