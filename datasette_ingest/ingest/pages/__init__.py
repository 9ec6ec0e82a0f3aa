"""Pages about results. They use what `web` has for pages, and are added to its routes by the plugin's surface."""

from ...web.openapi import ASKED, Operation
from ...web.routes import Route
from . import bodies, links, search, stats

ROUTES = (
    Route(
        "/-/ingest-stats/{database}",
        stats.stats,
        Operation("getStats", "Numbers of requests and results of a database", stats.Stats, ASKED),
    ),
    Route(
        "/-/ingest-links/{database}/{table}",
        links.report,
        Operation(
            "getLinksReport",
            "The links of a table that are dead, unsure, blocked, moved or redirected, in this order",
            links.LinksReport,
            (400, *ASKED),
            query=links.ReportQuery,
        ),
    ),
    Route("/-/ingest-links/{database}/{table}/report.csv", links.report_csv),
    Route(
        "/-/ingest-search/{database}",
        search.search,
        Operation("search", "Documents by the words in them", search.Documents, ASKED, query=search.SearchQuery),
    ),
    Route("/-/ingest-body/{database}/{sha1}", bodies.body),
    Route("/-/ingest-thumbnail/{database}/{sha1}", bodies.thumbnail),
)
