"""Sink: a place that keeps bodies."""

from __future__ import annotations

from typing import Protocol

from ..facts import FileMeta
from ..http.body import Body


class Sink(Protocol):
    """Keeps the body of each hit before its row is answered, so that no result names a body that was lost."""

    async def keep(self, body: Body, file_meta: FileMeta, kind: str) -> None:
        """Keep a body, which is open. An exception is an error of the row.

        :param kind: the ingest type: pdf, xml, html
        """
