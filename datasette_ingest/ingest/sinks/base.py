"""Sink: a place that keeps bodies."""

from __future__ import annotations

from typing import Protocol

from ..http.body import Body


class Sink(Protocol):
    """Keeps the body of each hit, and the files made of it, before its row is answered, so that no result names a body
    that was lost."""

    async def keep(self, kind: str, sha1hex: str, mimetype: str, content: Body | bytes) -> None:
        """Keep a file. A body is open, and stays so. An exception is an error of the row.

        :param kind: `body`, or what was made of it: `xml`, `tei`, `text`, `thumbnail`
        :param sha1hex: of the body
        """

    async def aclose(self) -> None: ...
