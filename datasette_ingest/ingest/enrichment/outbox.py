"""The SQL on rows that are at the fleet: their requests, and who waits for each. Functions of a connection; they neither
commit nor wait.

A row's reservation is put off with a ticket of its own, in the transaction in which it is noted here. Rows of a job that
want the same share one request, whose ticket goes through the fleet.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence

from ...sqlite import stamp
from ..cells import cell_key
from ..json_object import json_text
from ..model import IngestRequest

REQUESTS = "_enrichment_fleet_request"
ROWS = "_enrichment_fleet_row"
CLAIM_SECONDS = 10.0
AGAIN_SECONDS = 7 * 24 * 3600.0
"""A request without an answer for so long is published again: the fleet may have lost it."""

_STILL_WAITS = f"""exists (
  select 1 from {ROWS} w join _enrichment_batches b on b.ticket = w.ticket where w.request = {REQUESTS}.ticket
)"""


def digest_of(job_id: int, request: IngestRequest) -> str:
    """What requests of a job have in common that share an answer: the URL, and what is expected of the file."""
    key = cell_key(request.base_url)
    url = key.decode("utf-8", "replace") if isinstance(key, bytes) else key
    wanted = (request.expect_hash, request.as_of, request.max_capture_age_days, request.force_recrawl)
    return json_text([job_id, request.ingest_type, url, wanted])


def ask(conn: sqlite3.Connection, row_ticket: str, job_id: int, request: IngestRequest, request_ticket: str) -> None:
    """Note that the row of a ticket waits for the answer to a request: one that is open already, or a new one with the
    other ticket."""
    digest = digest_of(job_id, request)
    found = conn.execute(f"select ticket from {REQUESTS} where digest = ?", [digest]).fetchone()
    if found is None:
        conn.execute(
            f"insert into {REQUESTS} (ticket, job_id, digest, request, published) values (?, ?, ?, ?, null)",
            [request_ticket, job_id, digest, json_text(request.to_json())],
        )
    shared = request_ticket if found is None else found[0]
    conn.execute(f"insert into {ROWS} (ticket, request, job_id) values (?, ?, ?)", [row_ticket, shared, job_id])


_UNPUBLISHED = f"""
(published is null or published < :again) and (claimed_until is null or claimed_until < :now) and {_STILL_WAITS}
"""


def has_unpublished(conn: sqlite3.Connection, now: float) -> bool:
    """Whether `claim` would find any."""
    sql = f"select 1 from {REQUESTS} where {_UNPUBLISHED} limit 1"
    return conn.execute(sql, {"again": stamp(now - AGAIN_SECONDS), "now": stamp(now)}).fetchone() is not None


def claim(conn: sqlite3.Connection, most: int, now: float) -> list[tuple[str, IngestRequest]]:
    """(ticket, request) of requests that this process is to publish, and whose rows still wait: new ones, and those without
    an answer for AGAIN_SECONDS. Other processes leave them alone for CLAIM_SECONDS."""
    sql = f"select ticket, request from {REQUESTS} where {_UNPUBLISHED} order by rowid limit :most"
    rows = conn.execute(sql, {"again": stamp(now - AGAIN_SECONDS), "now": stamp(now), "most": most}).fetchall()
    until = stamp(now + CLAIM_SECONDS)
    conn.executemany(f"update {REQUESTS} set claimed_until = ? where ticket = ?", [(until, row[0]) for row in rows])
    return [(ticket, IngestRequest.from_json(json.loads(text))) for ticket, text in rows]


def note_published(conn: sqlite3.Connection, tickets: Collection[str], now: float) -> None:
    conn.executemany(
        f"update {REQUESTS} set published = ?, claimed_until = null where ticket = ?",
        [(stamp(now), each) for each in tickets],
    )


def publish_again(conn: sqlite3.Connection) -> None:
    """Let every open request be published again."""
    conn.execute(f"update {REQUESTS} set published = null, claimed_until = null")


def known(conn: sqlite3.Connection, tickets: Collection[str]) -> set[str]:
    """Those of the tickets that are of open requests."""
    sql = f"select ticket from {REQUESTS} where ticket in (select value from temp.json_each(?))"
    return {ticket for (ticket,) in conn.execute(sql, [json.dumps(list(tickets))])}


def waiting(conn: sqlite3.Connection, ticket: str) -> tuple[str, Sequence[str]]:
    """(digest of the request, the tickets of the rows that wait for it), for the ticket of a request."""
    found = conn.execute(f"select digest from {REQUESTS} where ticket = ?", [ticket]).fetchone()
    rows = conn.execute(f"select ticket from {ROWS} where request = ? order by rowid", [ticket]).fetchall()
    return "" if found is None else found[0], [row for (row,) in rows]


def settle(conn: sqlite3.Connection, ticket: str, answered: Collection[str]) -> bool:
    """These rows were answered. Whether no other waits for the request, which is then forgotten."""
    conn.executemany(f"delete from {ROWS} where ticket = ?", [(each,) for each in answered])
    if conn.execute(f"select 1 from {ROWS} where request = ? limit 1", [ticket]).fetchone() is not None:
        return False
    conn.execute(f"delete from {REQUESTS} where ticket = ?", [ticket])
    return True


def forget_jobs(conn: sqlite3.Connection) -> None:
    """Forget the rows of jobs that are over: nobody waits for them."""
    over = "job_id not in (select id from _enrichment_jobs where status in ('pending', 'running', 'paused'))"
    conn.execute(f"delete from {ROWS} where {over}")
    conn.execute(f"delete from {REQUESTS} where {over}")
