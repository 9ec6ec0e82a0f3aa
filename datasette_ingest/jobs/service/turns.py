"""Turns at the database for those who wait for an answer: a few at once of one actor, and one thread is left for all other
pages.

A query over rows that somebody chose may be slow whatever its time limit. So many of them at once would take all threads
with which Datasette reads, and every other page would wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator
from typing import Any

from ..errors import TooMany
from ..model import actor_id
from .permissions import Actor

MOST_OF_ONE_ACTOR = 6
"""Requests of one actor that may ask or wait at once. Visitors who are not signed in are one actor."""
PATIENCE_SECONDS = 5.0
"""How long a request waits for its turn."""


class _Own:
    """The requests of one actor: how many there are, and the places that they may take together."""

    def __init__(self, places: int) -> None:
        self.number = 0
        self.places = asyncio.Semaphore(places)


class _Turns:
    """The places of one server. One actor never takes them all, where there are two or more."""

    def __init__(self, places: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.places = asyncio.Semaphore(places)
        self.of_one = max(1, places - 1)
        self.actors: dict[str | None, _Own] = {}


_TURNS: weakref.WeakKeyDictionary[Any, _Turns] = weakref.WeakKeyDictionary()


def _turns(datasette: Any) -> _Turns:
    """Those of this server: one place fewer than it has threads to read with."""
    found = _TURNS.get(datasette)
    if found is None or found.loop is not asyncio.get_running_loop():
        found = _TURNS[datasette] = _Turns(max(1, datasette.setting("num_sql_threads") - 1))
    return found


@contextlib.asynccontextmanager
async def turn(datasette: Any, actor: Actor) -> AsyncIterator[None]:
    """A turn for queries that each end within about a second.

    :raises TooMany: 429, when the actor has MOST_OF_ONE_ACTOR already, or no turn comes within PATIENCE_SECONDS
    """
    turns, who = _turns(datasette), actor_id(actor)
    own = turns.actors.setdefault(who, _Own(turns.of_one))
    if own.number >= MOST_OF_ONE_ACTOR:
        raise TooMany(f"{own.number} requests of yours are being answered already. Try again when they are done")
    own.number += 1
    try:
        async with contextlib.AsyncExitStack() as held:
            end = turns.loop.time() + PATIENCE_SECONDS
            for places in (own.places, turns.places):
                try:
                    await asyncio.wait_for(places.acquire(), max(0.0, end - turns.loop.time()))
                except (asyncio.TimeoutError, TimeoutError):
                    raise TooMany("The database is busy with other requests. Try again in a few seconds") from None
                held.callback(places.release)
            yield
    finally:
        own.number -= 1
        if not own.number:
            del turns.actors[who]
