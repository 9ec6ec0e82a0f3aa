"""Only this package knows which Datasette line is running: instances, files, permissions, pages, events, reads, writes.

Others use its names from here, as in `compat.read`.
"""

from .configuration import configured_tables, fts_table, plugin_config
from .enrichable import INTERNAL_DATABASES, databases, why_not_enrichable
from .errors import Busy, Interrupted, Moved, Unavailable
from .events import has_events, job_events, track_job
from .faults import is_broken, is_busy, may_pass, recovered, report, unavailable
from .files import (
    FileId,
    connect_for_writing,
    connect_to,
    file_id,
    file_of,
    remember_files,
    require_same_file,
    roll_back,
)
from .instance import close, open_datasette
from .line import is_1_0
from .pages import database_color, fake_request, has_page_tops
from .permissions import (
    ENRICH_ACTION,
    Rule,
    acts_for_root,
    can_enrich,
    can_enrich_any,
    can_execute_sql,
    can_view,
    is_root,
    is_table_action,
    may_enrich_somewhere,
    permission_sql,
    table_actions,
    tables_out_of_sight,
)
from .reading import read
from .writing import BUSY_PAUSES, write

__all__ = [
    "BUSY_PAUSES",
    "ENRICH_ACTION",
    "INTERNAL_DATABASES",
    "Busy",
    "FileId",
    "Interrupted",
    "Moved",
    "Rule",
    "Unavailable",
    "acts_for_root",
    "can_enrich",
    "can_enrich_any",
    "can_execute_sql",
    "can_view",
    "close",
    "configured_tables",
    "connect_for_writing",
    "connect_to",
    "database_color",
    "databases",
    "fake_request",
    "file_id",
    "file_of",
    "fts_table",
    "has_events",
    "has_page_tops",
    "is_1_0",
    "is_broken",
    "is_busy",
    "is_root",
    "is_table_action",
    "job_events",
    "may_enrich_somewhere",
    "may_pass",
    "open_datasette",
    "permission_sql",
    "plugin_config",
    "read",
    "recovered",
    "remember_files",
    "report",
    "require_same_file",
    "roll_back",
    "table_actions",
    "tables_out_of_sight",
    "track_job",
    "unavailable",
    "why_not_enrichable",
    "write",
]
