"""Which tables and views a job makes."""

from __future__ import annotations

from typing import Any

import pytest

from datasette_ingest import settings
from datasette_ingest.ingest.documents import registry
from datasette_ingest.ingest.documents.base import Processor
from datasette_ingest.ingest.enrichment import IngestConfig, IngestEnrichment
from datasette_ingest.ingest.files import PDF


async def nothing(*args: Any) -> None:
    """Reads nothing."""


@pytest.mark.parametrize(("prefix", "view"), [("", "ingest_documents"), ("old_", "old_ingest_documents")])
def test_the_view_of_documents_comes_with_their_texts(monkeypatch: pytest.MonkeyPatch, prefix: str, view: str) -> None:
    def tables(*names: str) -> set[str]:
        reader = Processor("words", "1", frozenset({PDF}), nothing, tables=names)
        monkeypatch.setattr(registry, "PROCESSORS", (lambda given: reader,))
        config = IngestConfig(url_column="url", table_prefix=prefix)
        return set(IngestEnrichment(settings.Settings()).tables(config))

    assert view in tables("ingest_fulltext")
    assert view not in tables("pdf_meta")
