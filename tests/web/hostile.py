"""A Datasette in which every text that a stranger can choose is an attack on the page that shows it."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
from typing import Any

import lxml.html
import pydantic
from datasette.database import Database

from datasette_ingest import BatchOutcome, Cancel, ColumnField, Enrichment, Pause, RowError, RowUpdate

ELEMENT = "attack-here"
ATTRIBUTE = "onattack"
ATTACK = (
    f"\"'`>&lt;<{ELEMENT} {ATTRIBUTE}=1></script></textarea></title></style>--><img src=x onerror=window.attacked=1>"
    '<script>window.attacked=1</script>{{7*7}}</ " onmouseover=window.attacked=1 autofocus onfocus=window.attacked=1 '
    f"{ATTRIBUTE}='"
)
"""Breaks out of text, of attributes in any quotes, of scripts, titles, comments and templates."""
LINK = f"javascript:window.attacked=1//{ATTACK}"
ACTOR = {"id": f"root{ATTACK}", "name": ATTACK}
DATABASE = f"data{ATTACK}"
TABLE = f"table{ATTACK}"
COLUMN = f"column{ATTACK}"
CONFIG: dict[str, Any] = {"plugins": {"datasette-ingest": {"run_jobs": False, "allow": True}}}


class Hostile(Enrichment):
    """Says and writes attacks. What it does to a row is that row's `act`."""

    slug, name, description = f"hostile{ATTACK}", f"Hostile{ATTACK}", f"Does harm{ATTACK}"
    batch_size = 1
    max_open_batches = 1

    class Config(pydantic.BaseModel):
        column: str = ColumnField(title=f"Column{ATTACK}", description=ATTACK)
        note: str = pydantic.Field(ATTACK, title=f"Note{ATTACK}", description=ATTACK)
        lines: list[str] = [ATTACK]
        choice: str = pydantic.Field(ATTACK, json_schema_extra={"enum": [ATTACK, "other"]})
        advanced: str = pydantic.Field(ATTACK, json_schema_extra={"advanced": True})

    def outcome_column(self, config: Any) -> str:
        return f"outcome{ATTACK}"

    async def defaults(self, db: Any, table: str) -> dict[str, Any]:
        return {"column": COLUMN}

    async def preview(self, rows: Any, config: Any) -> dict[str, Any]:
        return {f"Fact{ATTACK}": ATTACK, f"Link{ATTACK}": LINK}

    async def enrich_batch(self, rows: Any, pks: Any) -> BatchOutcome:
        for row in rows:
            if row["act"] == "pause":
                raise Pause(f"Paused{ATTACK}")
            if row["act"] == "cancel":
                raise Cancel(f"Cancelled{ATTACK}")
        errors = [RowError(pk, f"Failed{ATTACK}", f"Traceback{ATTACK}") for pk in pks]
        updates = [RowUpdate(pk, {f"outcome{ATTACK}": ATTACK}) for pk in pks]
        return BatchOutcome(updates=updates, errors=errors, outcomes={f"word{ATTACK}": len(rows)})


def make_database(path: pathlib.Path) -> None:
    """A table of three rows: one that fails, one that pauses its job, one that cancels it."""
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in (TABLE, COLUMN)}
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute(f"create table {quoted[TABLE]} (id text primary key, act text, {quoted[COLUMN]} text)")
        rows = [(f"{act}{ATTACK}", act, LINK) for act in ("fail", "pause", "cancel")]
        conn.executemany(f"insert into {quoted[TABLE]} values (?, ?, ?)", rows)


def add_database(datasette: Any, path: pathlib.Path) -> None:
    datasette.add_database(Database(datasette, path=str(path), is_mutable=True), name=DATABASE)


def attacks_in(html: str) -> list[str]:
    """The parts of a page that came out of a hostile text: elements, attributes, links that run."""
    page = lxml.html.document_fromstring(html)
    found = [element.tag for element in page.iter(ELEMENT)]
    for element in page.iter():
        if not isinstance(element.tag, str):
            continue
        for name, value in element.attrib.items():
            if name.startswith("on") and ("attack" in name or "attacked" in value):
                found.append(f"{element.tag} {name}")
            if name in ("href", "src", "action", "formaction") and value.strip().lower().startswith("javascript:"):
                found.append(f"{element.tag} {name}={value[:30]}")
        if element.tag == "script" and (element.text or "").strip() == "window.attacked=1":
            found.append("script")
        if element.tag == "img" and element.get("src") == "x":
            found.append("img")
    return found
