"""The databases in which jobs can run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datasette.database import Database


INTERNAL_DATABASES = frozenset({"_internal"})


def databases(datasette: Any) -> dict[str, Database]:
    """The databases in which jobs can run: mutable ones that several connections can share."""
    return {name: db for name, db in datasette.databases.items() if why_not_enrichable(db) is None}


def why_not_enrichable(db: Any) -> str | None:
    """Why no job can run in this database; None when one can."""
    if db.name in INTERNAL_DATABASES:
        return "Datasette's internal database cannot be enriched"
    if not db.is_mutable:
        return (
            f"The database {db.name} is immutable: Datasette was told not to change it (-i), so nothing can be written"
        )
    if db.is_memory and not db.memory_name:
        return f"The database {db.name} lives in memory without a name, so no two connections see the same rows"
    return None
