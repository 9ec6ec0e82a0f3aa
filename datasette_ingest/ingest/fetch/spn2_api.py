"""The API of Save Page Now 2: what is asked, and what its answers mean.

Source: the service's API document, edition of 2025-10-22
(https://docs.google.com/document/d/1Nsv52MvSjbLb2PCpHlat0gkzw0EvtSgpKHu4mk0MnrA).
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import quote

from ..http.service import Service, ServiceAnswer, ServiceFailure
from ..urls import mask

SPARE_PLACES = 1
"""Places that are left free, for the person whose account it is."""
OF_THE_ACCOUNT = ("max-daily-bandwidth", "too-many-daily-captures-from-ip")
OF_THE_URL = ("too-many-daily-captures",)
"""Codes, and beginnings of codes, of limits that end with the day: of all URLs, or of the URL or its host alone."""
_SHOWN = 200
"""Characters of a message that are shown."""


class Refused(Exception):
    """The service takes no more captures now. `seconds`: the pause that it asks for, if it does. `is_full`: all places
    are taken. `is_daily`: nothing changes before tomorrow (UTC). `is_general`: other URLs would be refused, too."""

    def __init__(
        self,
        message: str,
        *,
        seconds: float | None = None,
        is_full: bool = False,
        is_daily: bool = False,
        is_general: bool = True,
    ) -> None:
        super().__init__(message)
        self.is_full = is_full
        self.seconds = seconds
        self.is_daily = is_daily
        self.is_general = is_general


class Unusable(Exception):
    """The service did not answer, or not as documented."""


@dataclass(frozen=True)
class Started:
    """A capture that was begun. `is_recent`: the service uses one that it has made before."""

    job_id: str | None
    is_recent: bool = False


@dataclass(frozen=True)
class Pending:
    """The capture is under way."""


@dataclass(frozen=True)
class Captured:
    """The capture succeeded. `url`: where it ended, perhaps cut. `original_job_id`: the capture that was reused."""

    url: str
    timestamp: str
    original_job_id: str | None = None


@dataclass(frozen=True)
class Failed:
    """The capture failed, with a code without its prefix `error:`; "" where there is none."""

    code: str
    message: str


State: TypeAlias = "Pending | Captured | Failed | Refused"
"""How a capture stands. Refused: it was begun, and then refused."""


class Spn2Api:
    """Asks the service. Every method raises Refused, or Unusable."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def places(self) -> int:
        """How many more captures may be begun now."""
        reply = await self._ask("GET", "/status/user")
        done, limit = reply.get("daily_captures"), reply.get("daily_captures_limit")
        if isinstance(done, int) and isinstance(limit, int) and 0 < limit <= done:
            raise Refused(f"the account has made its {limit:,} captures of the day", is_daily=True)
        available = reply.get("available")
        if not isinstance(available, int):
            raise Unusable(f"no number of free places in the answer{_said(reply)}")
        return max(0, available - SPARE_PLACES)

    async def start(self, url: str, *, not_within_hours: int | None) -> Started | Failed:
        """Begin to capture a URL.

        :param not_within_hours: an earlier capture is used if it is younger; None: the service's own hour
        """
        fields = {"url": url, "capture_all": "1", "skip_first_archive": "1", "js_behavior_timeout": "0"}
        if not_within_hours is not None:
            days, hours = divmod(not_within_hours, 24)
            fields["if_not_archived_within"] = f"{days}d" if days else f"{hours}h"
        reply = await self._ask("POST", "", fields)
        job_id, message = _text(reply, "job_id"), _text(reply, "message") or ""
        if "limit of active sessions" in message:
            raise Refused(mask(message)[:_SHOWN], is_full=True)
        if "same snapshot had been made" in message:
            return Started(job_id, is_recent=True)
        if reply.get("status") == "error" or _text(reply, "status_ext"):
            found = failure(reply)
            if isinstance(found, Refused):
                raise found
            return found
        if job_id is None:
            return Failed("", f"no job_id in the answer{_said(reply)}")
        return Started(job_id)

    async def state(self, job_id: str) -> State:
        """How a capture stands."""
        reply = await self._ask("GET", f"/status/{quote(job_id, safe='')}")
        status = reply.get("status")
        if status == "pending":
            return Pending()
        if status == "error":
            return failure(reply)
        if status != "success":
            raise Unusable(f"an unknown state of a capture{_said(reply)}")
        return Captured(
            _text(reply, "original_url") or "", _text(reply, "timestamp") or "", _text(reply, "original_job_id")
        )

    async def _ask(self, method: str, path: str, fields: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        # Without a number that changes, an old answer may come from a cache.
        params = {"_t": random.getrandbits(48)} if method == "GET" else None
        try:
            return _object(await self._service.ask(method, path, params=params, data=fields))
        except ServiceFailure as problem:
            raise Unusable(str(problem)) from None

    async def aclose(self) -> None:
        await self._service.aclose()


def failure(reply: Mapping[str, Any]) -> Failed | Refused:
    """The failure that an answer tells. A limit of the account, or of the day, is a refusal."""
    code = (_text(reply, "status_ext") or "").removeprefix("error:")
    shown = mask((_text(reply, "message") or _text(reply, "exception") or "").strip())[:_SHOWN]
    if code == "user-session-limit":
        return Refused(shown or code, is_full=True)
    if code.startswith(OF_THE_ACCOUNT):
        return Refused(shown or code, is_daily=True, is_general=not code.endswith("-host"))
    if code.startswith(OF_THE_URL):
        return Refused(code, is_daily=True, is_general=False)
    return Failed("".join(c for c in code if c.isalnum() or c in "-_.")[:80], shown)


def _object(answer: ServiceAnswer) -> Mapping[str, Any]:
    """The JSON object of an answer."""
    if answer.status == 429:
        raise Refused("too many requests", seconds=answer.retry_after)
    if answer.status in (401, 403):
        raise Unusable(f"it answers {answer.status}: spn2_access_key and spn2_secret_key are not accepted")
    try:
        reply = json.loads(answer.content)
    except (ValueError, RecursionError):
        reply = None
    if answer.status != 200:
        raise Unusable(f"it answers {answer.status}{_said(reply) if isinstance(reply, dict) else ''}")
    if not isinstance(reply, dict):
        raise Unusable(
            "it answers with a page instead of JSON: it is out of order, or spn2_access_key and spn2_secret_key are wrong"
        )
    return reply


def _text(reply: Mapping[str, Any], name: str) -> str | None:
    value = reply.get(name)
    return value if isinstance(value, str) and value else None


def _said(reply: Mapping[str, Any]) -> str:
    message = _text(reply, "message")
    return f": {mask(message)[:_SHOWN]}" if message else ""
