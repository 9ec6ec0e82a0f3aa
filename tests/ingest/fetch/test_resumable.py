"""A source that begins something and is asked for it again: what a row waits for is gone on with first, and remembered."""

from __future__ import annotations

from typing import Any

import pytest

from datasette_ingest.ingest.errors import (
    Begun,
    CdxError,
    IngestError,
    PutOff,
    RateLimited,
    TerminalBadStatus,
    WaybackError,
)
from datasette_ingest.ingest.fetch.base import FetchRequest, FetchTrace, Resource, fetch_first
from datasette_ingest.ingest.fetch.memory import Memory

from ..origin import PDF
from .test_sources import LANDING, Held, ask, make

__all__ = ["make"]


class Slow(Held):
    """Has a URL once it was asked for it `turns` times, beside the first."""

    def __init__(self, has: dict[str, bytes | Exception], turns: int = 2) -> None:
        super().__init__("slow", has)
        self.turns = turns
        self.resumed: list[str] = []

    async def has_begun(self, request: FetchRequest) -> bool:
        return await request.memory.get(f"slow {request.url}") is not None

    async def resume(self, request: FetchRequest) -> None:
        self.resumed.append(request.url)
        await self._turn(request)

    async def fetch(self, request: FetchRequest, trace: FetchTrace) -> Resource:
        await self._turn(request)
        return await super().fetch(request, trace)

    async def _turn(self, request: FetchRequest) -> None:
        key = f"slow {request.url}"
        turns = await request.memory.get(key) or 0
        if turns < self.turns:
            request.memory.keep(key, turns + 1, seconds=60)
            raise PutOff(5, "slow works on it", counts=False, begun=Begun("slow", request.url))


class Stored:
    """What a database holds between tries."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def memory(self) -> Memory:
        async def load(key: str) -> Any:
            return self.values.get(key)

        return Memory(load)

    async def tries(self, make: Any, *sources: Any, url: str = "http://h/a") -> tuple[Any, int]:
        """The result of a row, and how many tries it took."""
        for number in range(1, 20):
            memory = self.memory()
            try:
                result = await ask(make(*sources), url, memory=memory)
            except PutOff:
                result = None
            for key, (value, _) in memory.changes.items():
                self.values.pop(key, None)
                if value is not None:
                    self.values[key] = value
            if result is not None:
                return result, number
        raise AssertionError("it is put off for ever")


async def test_a_source_that_has_begun_with_a_url_is_asked_before_those_that_missed_it() -> None:
    first, slow, stored = Held("first", {}), Slow({"http://h/a": PDF}, turns=1), Stored()
    memory = stored.memory()
    for _ in range(2):
        try:
            resource = await fetch_first([first, slow], FetchRequest("http://h/a", memory=memory), FetchTrace())
        except PutOff as put_off:  # noqa: PERF203 - the next try is the next turn
            assert put_off.begun == ("slow", "http://h/a")
    assert resource.via == "slow" and len(first.asked) == 1


async def test_a_miss_of_a_source_that_has_begun_leads_to_those_after_it() -> None:
    slow = Slow({"http://h/a": TerminalBadStatus("gone", status_code=404)}, turns=0)
    last = Held("last", {"http://h/a": PDF})
    memory = Memory()
    memory.keep("slow http://h/a", 1, seconds=60)
    resource = await fetch_first([slow, last], FetchRequest("http://h/a", memory=memory), FetchTrace())
    assert resource.via == "last"


@pytest.mark.parametrize("error", [CdxError("away"), WaybackError("away"), RateLimited("later")])
async def test_nothing_is_begun_where_an_archive_may_have_the_url(error: IngestError) -> None:
    archive, slow = Held("archive", {"http://h/a": error}), Slow({"http://h/a": PDF})
    memory = Memory()
    with pytest.raises(type(error)):
        await fetch_first([archive, slow], FetchRequest("http://h/a", memory=memory), FetchTrace())
    assert not slow.asked and not memory.changes


async def test_pages_are_not_fetched_again_while_a_row_waits_for_its_file(make: Any) -> None:
    archive, slow, stored = Held("archive", {"http://h/a": LANDING}), Slow({"http://h/a.pdf": PDF}, turns=3), Stored()
    result, tries = await stored.tries(make, archive, slow)
    assert (result.status, result.via, tries) == ("success", "slow", 4)
    assert [request.url for request in archive.asked].count("http://h/a") == 2, "for its link, and for the result"
    assert slow.resumed == ["http://h/a.pdf"] * 3
    assert not [key for key in stored.values if key.startswith("waits for")], "an answered row waits for nothing"


async def test_a_row_without_a_source_that_begins_things_reads_no_memory(make: Any) -> None:
    async def load(key: str) -> Any:
        raise AssertionError(f"read {key}")

    result = await ask(make(Held("archive", {"http://h/a": PDF})), "http://h/a", memory=Memory(load))
    assert result.hit


async def test_what_a_row_waits_for_names_no_password(make: Any) -> None:
    archive, slow = Held("archive", {"http://u:pw@h/a": LANDING}), Slow({"http://h/a.pdf": PDF})
    archive.has["http://u:pw@h/a"] = b'<meta name="citation_pdf_url" content="http://h/a.pdf">'
    memory = Memory()
    with pytest.raises(PutOff):
        await ask(make(archive, slow), "http://u:pw@h/a", memory=memory)
    assert "pw" not in str(memory.changes)


async def test_a_try_sees_what_it_has_changed_itself() -> None:
    stored = Stored()
    stored.values["a"] = 1
    memory = stored.memory()
    assert await memory.get("a") == 1
    memory.keep("a", 2, seconds=60)
    assert await memory.get("a") == 2
    memory.forget("a")
    assert await memory.get("a") is None and stored.values == {"a": 1}
    assert memory.changes == {"a": (None, 0.0)}


def test_a_copy_of_a_put_off_knows_what_was_begun() -> None:
    again = PutOff(5, "wait", counts=False, begun=Begun("slow", "http://h/")).again()
    assert (again.seconds, again.reason, again.counts, again.begun) == (5, "wait", False, ("slow", "http://h/"))
