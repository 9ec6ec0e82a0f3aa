"""Pages about results. They use what `web` has for pages, and are added to its routes by the plugin's surface."""

from ...web.openapi import ASKED, Operation
from ...web.routes import Route
from . import stats

ROUTES = (
    Route(
        "/-/ingest-stats/{database}",
        stats.stats,
        Operation("getStats", "Numbers of requests and results of a database", stats.Stats, ASKED),
    ),
)
