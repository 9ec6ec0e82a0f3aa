"""Memory: what sources remember of URLs between the tries of a row."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any


async def _nothing(key: str) -> Any:
    return None


class Memory:
    """JSON values by key, as one try of one row sees them. What the try changes is stored with the row's answer, or with
    the time until which the row is put off, in one transaction.

    :param load: reads what earlier tries, of any row, have stored under a key; None where nothing is
    :param is_lasting: whether there is a next try that finds what this one keeps. A dry run has none
    """

    def __init__(self, load: Callable[[str], Awaitable[Any]] = _nothing, *, is_lasting: bool = True) -> None:
        self._load = load
        self.is_lasting = is_lasting
        self.changes: dict[str, tuple[Any, float]] = {}
        """key -> (value, seconds for which it is kept). A value of None is forgotten."""

    async def get(self, key: str) -> Any:
        """The value of a key; None if there is none."""
        return self.changes[key][0] if key in self.changes else await self._load(key)

    def keep(self, key: str, value: Any, *, seconds: float) -> None:
        self.changes[key] = value, seconds

    def forget(self, key: str) -> None:
        self.changes[key] = None, 0.0
