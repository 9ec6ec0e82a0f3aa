"""LinkChecker.check(url) -> Verdict: one link, from its first request to its word.

A HEAD for each hop. A GET where a server does not answer HEAD as it answers GET, and for the beginning of a page, where only
the page tells whether it is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from urllib.parse import unquote

from ..documents.pool import ProcessPool
from ..errors import (
    BadHttp,
    BlockedCookie,
    BlockedRobots,
    ConnectError,
    HtmlParseError,
    IngestError,
    JsRequired,
    NoCapture,
    PutOff,
    ReadTimeout,
    RedirectLoop,
    SkipWall,
    Soft404,
    TerminalBadStatus,
    TooManyRedirects,
    TruncatedBody,
    WaybackContentError,
)
from ..fetch.base import SourceSetup, rate_limited
from ..fetch.captures import refuse_password, replay_url
from ..fetch.cdx import CdxClient
from ..fetch.cdx_rows import best, moment
from ..fetch.robots import Robots
from ..http.client import LOOK_BYTES, Look
from ..http.cookies import CookieJar
from ..http.parser import Head
from ..http.politeness import MAX_BACK_OFFS, PRIORITY_PATIENCE
from ..http.redirects import is_redirect, redirect_fragment, redirect_target
from ..policy import cookie_refusal, is_wall
from ..reading import read_page
from ..urls import mask, split, without_fragment
from . import pages
from .addresses import REFRESH, Hop, differ_only_in, fragment_of, instead_of_the_page, is_moved, with_fragment
from .verdict import Fragment, LinkStatus, Verdict, is_unreachable, reason_of, retry_of, status_of

PAGE_BYTES = 128 * 1024
"""How much of a page is read, at most, to tell whether it is one: pages that stand for another one are short."""
ANCHOR_BYTES = 4 * 2**20
"""How much of a page is read for its anchor, at most."""
MOST_ORIGINS = 10_000
"""Origins of which it is remembered how they answer HEAD."""
ACCEPT = "text/html,application/xhtml+xml,*/*;q=0.8"

_HTML = (b"text/html", b"application/xhtml+xml")
_NO_HEAD = (ConnectError, ReadTimeout, BadHttp, TruncatedBody)
"""What a server that does not know HEAD may do instead of an answer."""
_UNSURE_STAYS = frozenset({429})
"""What an answer to HEAD says that a GET at once would not change, and should not be sent after."""


@dataclass
class _Walk:
    """One link on its way. Mutable, for one check."""

    asked: str
    reads_pages: bool
    back_offs: int = 0
    jar: CookieJar = field(default_factory=CookieJar)
    hops: list[Hop] = field(default_factory=list)
    seen: set[tuple[str, bytes | None]] = field(default_factory=set)
    url: str = ""
    fragment: str = ""
    code: int | None = None

    def leave_by(self, look: Look) -> None:
        """Go on where a redirect leads.

        :raises BadRedirect, BadScheme: when it leads nowhere
        """
        self.leave(redirect_target(self.url, look.head), look.status, redirect_fragment(look.head))

    def leave(self, target: str, status: int, fragment: str) -> None:
        self.hops.append(Hop(self.url, status))
        self.fragment = fragment or self.fragment
        self.url = target

    @property
    def anchor(self) -> str | None:
        """The anchor that is looked up in the page; None where only a browser can tell, '' where there is none."""
        return pages.anchor_of(self.fragment)

    @property
    def most(self) -> int:
        """How much of a page is read."""
        return ANCHOR_BYTES if self.anchor else PAGE_BYTES if self.reads_pages else 1


class LinkChecker:
    """Asks the servers themselves, in the turns of the crawler that it belongs to."""

    def __init__(self, setup: SourceSetup, pool: ProcessPool) -> None:
        self._settings = setup.settings
        self._policy = setup.policy
        self._client = setup.client
        self._patience = setup.patience
        self._pool = pool
        self._index = CdxClient(setup)
        self._robots = None
        if setup.settings.robots == "obey":
            self._robots = Robots(
                setup.client,
                refuse=self._policy.refuse_listed,
                user_agent=setup.settings.full_user_agent,
                patience=setup.patience,
            )
        self._without_head: set[str] = set()
        """Origins that have answered a GET otherwise than a HEAD."""

    async def aclose(self) -> None:
        """End what is under way."""
        if self._robots is not None:
            await self._robots.aclose()
        await self._index.aclose()

    async def check(self, href: str, *, reads_pages: bool = True, back_offs: int = 0) -> Verdict:
        """The verdict on a link. What a server does is never an exception.

        :param href: as `clean_cell` returns it, with its fragment
        :param reads_pages: whether the beginning of a page is read, to know pages that only say "not found", ask for a
            login, or are those of a domain for sale
        :param back_offs: how often a host asked us to wait in earlier tries
        :raises PutOff: when its turn at a host is further away than the crawler's patience
        """
        walk = _Walk(href, reads_pages, back_offs, url=without_fragment(href), fragment=fragment_of(href))
        try:
            while (verdict := await self._judge(walk, await self._follow(walk))) is None:
                pass
            return verdict
        except IngestError as error:
            return self._failed(walk, error)
        except PutOff as put_off:
            if not put_off.counts or back_offs < MAX_BACK_OFFS:
                raise
            return self._failed(walk, rate_limited(put_off, back_offs))

    async def capture_of(self, href: str, near: str | None) -> str | None:
        """The address of a web archive's capture of a link, for people; None where it has none that shows the page.

        :param near: a timestamp of up to 14 digits that the capture is to be nearest to; None: the newest
        :raises PutOff: when the turn at the archive's index is further away than the crawler's patience
        :raises IngestError: when the index does not answer
        """
        url = without_fragment(href)
        if (refuse_password(url) or self._policy.refuse_host(url)) is not None:
            return None
        try:
            rows = await self._index.captures(url, near=near)
        except (NoCapture, WaybackContentError):
            return None
        shown = [row for row in rows if row.status is None or row.is_ok]
        row = best(shown, url, near=None if near is None else moment(near))
        return None if row is None else replay_url(self._settings.wayback_url, row.timestamp, row.url, mode="")

    # The way to the end of the redirects

    async def _follow(self, walk: _Walk) -> Look:
        while len(walk.hops) <= self._settings.max_redirects:
            self._check(walk)
            state = (walk.url, walk.jar.header(walk.url))
            if state in walk.seen:
                raise RedirectLoop(f"the redirects from {mask(walk.asked)} come back to {mask(walk.url)}")
            walk.seen.add(state)
            if self._robots is not None:
                await self._robots.check(walk.url)
            look = await self._head(walk)
            if not is_redirect(look.head):
                return look
            walk.leave_by(look)
        raise TooManyRedirects(f"more than {self._settings.max_redirects} redirects from {mask(walk.asked)}")

    def _check(self, walk: _Walk) -> None:
        """:raises IngestError: for an address that is not asked for"""
        refusal = self._policy.refuse_listed(walk.url)
        if refusal is not None:
            raise refusal
        if walk.hops and is_wall(walk.url) and not is_wall(walk.asked):
            raise SkipWall(f"it leads to the login page {mask(walk.url)}")
        if walk.hops and cookie_refusal(walk.url):
            raise BlockedCookie(f"it leads to {mask(walk.url)}, the page for browsers that refuse cookies")

    async def _head(self, walk: _Walk) -> Look:
        """The response to HEAD, or to GET where the server answers HEAD in its own way."""
        origin = split(walk.url).origin
        if origin not in self._without_head:
            try:
                look = await self._ask(walk, most=None)
                if look.status < 400 or look.status in _UNSURE_STAYS:
                    return look
            except _NO_HEAD as error:
                if is_unreachable(error):
                    raise
        look = await self._ask(walk, most=walk.most)
        if look.status < 400:
            self._note_without_head(origin)
        return look

    async def _ask(self, walk: _Walk, *, most: int | None) -> Look:
        """One response. Waits as often as the server asks for it, up to MAX_BACK_OFFS times."""
        patience = self._patience
        if patience is not None and walk.code is not None:
            patience *= PRIORITY_PATIENCE
        for back_off in range(min(walk.back_offs, MAX_BACK_OFFS), MAX_BACK_OFFS + 1):
            look = await self._client.look(
                walk.url,
                most=most,
                cookies=walk.jar.header(walk.url),
                accept=ACCEPT,
                priority=walk.code is not None,
                patience=patience,
                enough=_enough(walk),
            )
            walk.code = look.status
            walk.jar.store(walk.url, look.head.get_all(b"set-cookie"))
            if not self._client.backs_off(look, is_last=back_off == MAX_BACK_OFFS):
                return look
        raise AssertionError("unreachable: the last turn returns or raises")

    def _note_without_head(self, origin: str) -> None:
        if len(self._without_head) >= MOST_ORIGINS:
            self._without_head.clear()
        self._without_head.add(origin)

    # What is there

    async def _judge(self, walk: _Walk, look: Look) -> Verdict | None:
        """The verdict; None where the page leads on, to what is now `walk.url`.

        :raises IngestError: for what is no page or file, or stands for another one
        """
        _require_there(look)
        if walk.hops and (instead := instead_of_the_page(walk.asked, walk.url)) is not None:
            raise Soft404(f"it leads to {mask(walk.url)}, {instead}")
        fragment = Fragment.UNCHECKED if walk.fragment else None
        if walk.fragment and walk.anchor == "":
            fragment = Fragment.OK
        if not (_is_html(look.head) and (walk.reads_pages or walk.anchor)):
            return self._arrived(walk, fragment)
        if not look.data:
            look = await self._ask(walk, most=walk.most)
            if look.status >= 300:
                self._note_without_head(split(walk.url).origin)
            if is_redirect(look.head):
                walk.leave_by(look)
                return None
            _require_there(look)
        seen = await self._read(walk, look)
        if seen is not None and walk.reads_pages and seen.leads_to not in (None, walk.url):
            walk.leave(without_fragment(seen.leads_to or ""), REFRESH, fragment_of(seen.leads_to or ""))
            return None
        has_anchor = None if seen is None else seen.has_anchor
        if walk.anchor and (has_anchor or (has_anchor is False and look.is_whole)):
            fragment = Fragment.OK if has_anchor else Fragment.MISSING
        return self._arrived(walk, fragment)

    async def _read(self, walk: _Walk, look: Look) -> pages.Seen | None:
        """What is read of a page; None where it is none that can be read.

        :raises IngestError: for a page that stands for another one
        """
        if not look.data or not _is_html(look.head):
            return None
        try:
            work = partial(pages.read, look.data, walk.url, look.content_type, walk.anchor or "")
            seen = await read_page(self._pool, len(look.data), walk.url, work)
        except HtmlParseError:
            return None
        problem = pages.obstacle(walk.url, seen.text) if walk.reads_pages and seen.text is not None else None
        if problem is not None and seen.leads_to is None and not isinstance(problem, JsRequired):
            raise problem
        return seen

    def _arrived(self, walk: _Walk, fragment: Fragment | None) -> Verdict:
        found = with_fragment(walk.url, walk.fragment)
        verdict = Verdict(LinkStatus.OK, mask(found), walk.code, fragment, reached=split(walk.url).origin)
        if not walk.hops or walk.url == without_fragment(walk.asked):
            return verdict  # to itself, to set a cookie
        moved = is_moved(walk.hops)
        difference = differ_only_in(walk.asked, found)
        reason = "it has moved for good" if moved else "it is redirected for the time being"
        return replace(
            verdict,
            status=LinkStatus.MOVED if moved else LinkStatus.REDIRECTED,
            reason=reason + (f" (only {difference})" if difference else ""),
        )

    def _failed(self, walk: _Walk, error: IngestError) -> Verdict:
        status = status_of(error)
        is_gone = is_unreachable(error)
        if is_gone and self._settings.proxy is not None:  # it is the proxy that says so, or that is not there
            status, is_gone = LinkStatus.UNSURE, False
        return Verdict(
            status,
            mask(with_fragment(walk.url, walk.fragment)),
            walk.code if error.status_code is None or isinstance(error, BlockedRobots) else error.status_code,
            Fragment.UNCHECKED if walk.fragment else None,
            reason_of(error, split(walk.url).host),
            retry_of(error) if status is LinkStatus.UNSURE else Verdict.retry,
            error.retry_after,
            split(walk.url).origin if is_gone else None,
        )


def _require_there(look: Look) -> None:
    """:raises TerminalBadStatus: unless the status is 2xx, or 416, which says that there is nothing of an empty file to send
    a part of (RFC 9110, 15.5.17)"""
    if not (200 <= look.status < 300 or look.status == 416):
        raise TerminalBadStatus(f"{mask(look.url)} answers {look.status}", status_code=look.status)


def _is_html(head: Head) -> bool:
    """Whether the response is a page, or does not say what it is."""
    kind = (head.get(b"content-type") or b"").partition(b";")[0].strip().lower()
    return kind in _HTML or (not kind and head.status != 204)


def _enough(walk: _Walk) -> Callable[[Head, bytes], bool]:
    """What tells whether as much of a page has come as the verdict needs: nothing of a file, of a page its anchor."""
    names = {walk.anchor, unquote(walk.anchor)} if walk.anchor else set()
    written = "|".join(re.escape(name) for name in names)
    pattern = (
        re.compile(rf"(?:id|name)\s*=\s*[\"']?(?:user-content-)?(?:{written})[\"'\s>]".encode()) if names else None
    )

    def enough(head: Head, data: bytes) -> bool:
        if not data:
            return not _is_html(head)
        needed = PAGE_BYTES if walk.reads_pages else 0
        start = max(0, len(data) - LOOK_BYTES - 1024)
        return pattern is not None and len(data) >= needed and pattern.search(data, start) is not None

    return enough
