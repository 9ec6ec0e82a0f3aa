"""Every answer in JSON is JSON to any reader, whatever a cell, a key, a message or a setting holds."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest

from datasette_ingest import compat
from datasette_ingest.jobs.model import StartRequest
from datasette_ingest.jobs.service import control
from datasette_ingest.testing import run_until_idle

from ..conftest import registered, rows
from ..jobs.kit import by_row
from .conftest import ROOT, get

VALUES = {
    "1e999": "Inf",
    "-1e999": "-Inf",
    "9223372036854775807": "9223372036854775807",
    "-9007199254740993": "-9007199254740993",
    "9007199254740991": 9007199254740991,
    "x'00ff'": {"$base64": True, "encoded": "AP8="},
    "cast(x'61ff62' as text)": {"$base64": True, "encoded": "Yf9i"},
    "cast(x'eda080' as text)": {"$base64": True, "encoded": "7aCA"},
    "cast(x'610062' as text)": "a\0b",
    "char(8232) || '</script>'": "\u2028</script>",
    "1e-320": 1e-320,
    "''": "",
}
"""SQL of a cell -> what it is in JSON."""


def strictly(text: str) -> Any:
    """The value of a JSON text, read as by the strictest of readers."""

    def no_word(name: str) -> Any:
        raise AssertionError(f"{name} is not JSON")

    value = json.loads(text, parse_constant=no_word)
    json.dumps(value, ensure_ascii=False).encode("utf-8")  # no lone surrogates
    return value


@pytest.fixture
def path(tmp_path: Any) -> Any:
    path = tmp_path / "odd.db"
    with sqlite3.connect(path) as conn:
        conn.execute("create table odd (k blob primary key, number integer) without rowid")
        for number, sql in enumerate(VALUES):
            conn.execute(f"insert into odd values ({sql}, {number})")
    conn.close()
    return path


async def test_rows_and_keys_lose_nothing_and_are_json_to_any_reader(open_ds: Any, path: Any) -> None:
    datasette = await open_ds(paths=[str(path)])
    for address in ("/-/ingest/odd/odd.json", "/-/ingest/odd/odd/shout.json"):
        text = (await get(datasette, address, ROOT)).text
        assert "\u2028" not in text
        body = strictly(text)
        found = {row["number"]: row["k"] for row in body["rows"]}
        assert len(found) in (5, len(VALUES)) and all(list(VALUES.values())[n] == cell for n, cell in found.items())


async def test_errors_settings_and_state_are_json_to_any_reader(open_ds: Any, path: Any) -> None:
    def enrich(row: Any) -> None:
        raise ValueError("bad \udcff text")

    state = {"ratio": float("nan"), "worst": float("inf"), "text": "\udc80"}
    odd = by_row(enrich, default_max_errors=None)
    datasette = await open_ds(paths=[str(path)])
    with registered(odd):
        given = StartRequest("odd", "e", config={"name": "a\u2028"}, actor=ROOT)
        job = await control.start(datasette, "odd", given)
        await run_until_idle(datasette)
        sql = "update _enrichment_jobs set state = ?"
        await compat.write(datasette.databases["odd"], lambda conn: conn.execute(sql, [json.dumps(state)]).rowcount)
        shown = strictly((await get(datasette, f"/-/ingest-jobs/odd/{job.id}.json", ROOT)).text)["job"]
        errors = strictly((await get(datasette, f"/-/ingest-jobs/odd/{job.id}/errors.json", ROOT)).text)["errors"]
    assert shown["state"] == {"ratio": "NaN", "worst": "Inf", "text": "\\udc80"}
    assert shown["config"]["name"] == "a\u2028"
    assert {json.dumps(error["row_pks"]) for error in errors} >= {
        '["Inf"]',
        '["9223372036854775807"]',
        "[9007199254740991]",
        '[{"$base64": true, "encoded": "AP8="}]',
    }
    assert len(errors) == len(VALUES) and all("bad \\udcff text" in error["error"] for error in errors)
    stored = [text for (text,) in rows(path, "select row_pks from _enrichment_errors")]
    assert all(strictly(text) for text in stored) and "[9223372036854775807]" in stored
