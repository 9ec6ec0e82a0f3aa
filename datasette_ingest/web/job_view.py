"""The parts of a job's page as values for its template: outcomes, buttons, errors, the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ..jobs.enrichment import Enrichment
from ..jobs.model import Event, Job
from ..jobs.service.control import RetryCounts
from ..jobs.service.outcomes import HIT, OutcomeHome, lasting_filters, outcome_home
from ..jobs.store import ErrorGroups
from . import api, format
from .responses import query_of
from .urls import LONGEST_ADDRESS, Links, column_filter

# ---- outcomes ---------------------------------------------------------------------------------------------------


def outcomes(links: Links, database: str, job: Job, enrichment: Enrichment | None) -> list[dict[str, Any]]:
    """The outcome words with their counts, most frequent first, each linked to its rows where a column holds them."""
    home = outcome_home(job, enrichment)
    most = max(job.outcomes.values(), default=0)
    return [
        {
            "word": word,
            "id": "ingest-outcome-" + quote(word, safe=""),
            "count": count,
            "share": round(100 * count / most, 1) if most else 0,
            "url": _outcome_rows(links, database, job, word, home),
            "kind": word if word in (HIT, "error") else "other",
        }
        for word, count in sorted(job.outcomes.items(), key=lambda item: (-item[1], item[0]))
    ]


def _outcome_rows(links: Links, database: str, job: Job, word: str, home: OutcomeHome | None) -> str | None:
    """The table page of the job's rows with this outcome. Rows in error have no outcome written: the job knows them."""
    if word == "error" and job.outcomes[word] == job.error_count:
        return links.table(database, job.table_name, failed_rows(job))
    if home is None:
        return None
    within = lasting_filters(job.filter_querystring, home.written)
    if len(within) > LONGEST_ADDRESS:
        within = ""
    if home.table == job.table_name:
        return links.table(database, home.table, _joined(within, column_filter(home.column, word)))
    if within:  # it names columns of the source table, which a shadow table does not have
        by_job = query_of({"_ingest_job": job.id, "_ingest_status": word})
        return links.table(database, job.table_name, _joined(within, by_job))
    return links.table(database, home.table, column_filter(home.column, word))


def _joined(*querystrings: str) -> str:
    return "&".join(filter(None, querystrings))


def failed_rows(job: Job) -> str:
    """The filter that selects the rows which are in error in this job."""
    return f"_ingest_failed={job.id}"


# ---- buttons ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Button:
    """A step that a person may take now. `scope`: which rows a retry is about; '' as the engine chooses."""

    verb: str
    label: str
    scope: str = ""


def buttons(job: Job, retries: RetryCounts) -> list[Button]:
    """What the page offers. A retry only where there is something to try again, with how many rows of which kind."""
    offered = [Button(verb, verb.capitalize()) for verb in api.possible(job) if verb != "retry"]
    if not job.status.is_final:
        return offered
    usual = _usual_retry(job, retries)
    if usual:
        offered.append(Button("retry", usual))
    if retries.misses:
        offered.append(Button("retry", f"Retry {format.counted(retries.misses, 'miss', 'misses')}", "misses"))
    return offered


def _usual_retry(job: Job, retries: RetryCounts) -> str:
    """The label of the retry whose scope is not named; '' where it would find no row."""
    if retries.usual is None:
        return "Retry failures" if job.error_count or retries.errors else ""
    if not retries.usual:
        return ""
    kinds = [(number, kind) for number, kind in ((retries.errors, "in error"), (retries.due, "due")) if number]
    if len(kinds) == 1:
        return f"Retry {format.counted(retries.usual, 'row')} {kinds[0][1]}"
    named = ", ".join(f"{number:,} {kind}" for number, kind in kinds)
    return f"Retry {retries.usual:,}: {named}"


# ---- errors -----------------------------------------------------------------------------------------------------


def error_groups(links: Links, job: Job, found: ErrorGroups, database: str) -> list[dict[str, Any]]:
    """Errors by message with links to their first rows and to the list of all that say the same."""
    return [
        {
            "message": group.message,
            "count": group.count,
            "rows": row_links(links, database, job.table_name, group.keys),
            "more": group.count - len(group.keys),
            "more_url": links.errors(database, job.id, query_of({"like": group.first_id})),
            "traceback": group.traceback,
        }
        for group in found.groups
    ]


def row_links(links: Links, database: str, table: str, keys: Sequence[Any]) -> list[dict[str, Any]]:
    """Rows by key, each with the address of its page where it has one."""
    return [{"label": key_label(key), "url": links.row(database, table, key)} for key in keys]


def key_label(key: Any) -> str:
    """A row's key for reading: parts joined by commas, NULL spelled out."""
    parts = key if isinstance(key, (list, tuple)) else [key]
    return ", ".join("NULL" if part is None else format.cell(part) for part in parts)


# ---- the log ------------------------------------------------------------------------------------------------------


def log(events: Sequence[Event]) -> list[dict[str, str]]:
    """The job's log for reading."""
    return [{"at": format.moment(event.at), "message": format.sentence(event.message)} for event in events]


def events_json(events: Sequence[Event]) -> list[dict[str, Any]]:
    """The job's log for programs."""
    return [{"at": event.at, "message": event.message} for event in events]
