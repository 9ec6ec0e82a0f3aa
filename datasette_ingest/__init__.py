"""Find the full text behind every row of a SQLite table, inside Datasette: the plugin surface."""

from functools import partial
from typing import Any

from datasette import hookimpl
from datasette.filters import FilterArguments
from datasette.utils.asgi import BadRequest

from . import compat, settings
from .ingest.enrichment import GrobidEnrichment, IngestEnrichment, LinksEnrichment, ReplaceEnrichment
from .ingest.pages import ROUTES as PAGES_OF_RESULTS
from .ingest.pages import cells
from .ingest.pages import links as links_page
from .ingest.pages import search as search_page
from .ingest.pages import stats as stats_page
from .jobs.engine import server
from .jobs.engine.complete import complete
from .jobs.enrichment import ColumnField, Enrichment, Selected
from .jobs.errors import Cancel, Defer, JobError, Pause
from .jobs.model import BatchOutcome, Failures, RelatedRows, RowDefer, RowError, RowUpdate, SavedCopy, Word
from .jobs.secrets import get_secret
from .jobs.service import row_filters
from .sqlite import TableSpec, ViewSpec
from .web import access, banners, datasette_pages, routes

__all__ = [
    "BatchOutcome",
    "Cancel",
    "ColumnField",
    "Defer",
    "Enrichment",
    "Failures",
    "Pause",
    "RelatedRows",
    "RowDefer",
    "RowError",
    "RowUpdate",
    "SavedCopy",
    "Selected",
    "TableSpec",
    "ViewSpec",
    "Word",
    "complete",
    "get_secret",
]

routes.include(*PAGES_OF_RESULTS)


@hookimpl
def prepare_connection(database: str, datasette: Any) -> None:
    if database in datasette.databases:  # before Datasette's first look, which ends the server where it cannot read
        compat.roll_back(datasette.databases[database])


@hookimpl
def startup(datasette: Any) -> None:
    settings.check_sources(settings.load(compat.plugin_config(datasette)))  # a wrong setting stops Datasette here


@hookimpl
def register_ingest_enrichments(datasette: Any) -> Any:
    chosen = settings.load(compat.plugin_config(datasette))
    ingest = IngestEnrichment(chosen)
    checks = [LinksEnrichment(chosen, ingest.sessions), ReplaceEnrichment()]
    return [ingest, *checks, *([GrobidEnrichment(chosen)] if chosen.grobid_url else [])]


@hookimpl
def register_commands(cli: Any) -> None:
    from .cli import register  # the command line is loaded when it is used

    register(cli)


@hookimpl
def asgi_wrapper(datasette: Any) -> Any:
    return lambda app: server.wrap(datasette, app)


@hookimpl(specname="asgi_wrapper")
def asgi_wrapper_answers(datasette: Any) -> Any:
    return access.remembering


@hookimpl(specname="asgi_wrapper")
def asgi_wrapper_cells(datasette: Any) -> Any:
    return cells.remembering


@hookimpl
def register_routes() -> Any:
    return routes.routes()


@hookimpl
def skip_csrf(datasette: Any, scope: Any) -> Any:
    return routes.skips_csrf(datasette, scope)


@hookimpl(specname="permission_allowed", tryfirst=True)
def permission_allowed_enrich(datasette: Any, actor: Any, action: str, resource: Any) -> Any:
    return access.grant_enrich_table(datasette, actor, action, resource)


@hookimpl(specname="permission_allowed", trylast=True)
def permission_allowed_results(datasette: Any, actor: Any, action: str, resource: Any) -> Any:
    return access.guard_results(datasette, actor, action, resource)


@hookimpl
def register_actions(datasette: Any) -> Any:
    return compat.table_actions()


@hookimpl
def register_events(datasette: Any) -> Any:
    return list(compat.job_events().values())


@hookimpl
def permission_resources_sql(datasette: Any, actor: Any, action: str) -> Any:
    return access.permission_rules(datasette, actor, action)


@hookimpl
def get_metadata(datasette: Any, key: Any, database: Any, table: Any) -> Any:
    return access.hidden_metadata(database, key, table)


@hookimpl
def filters_from_request(request: Any, database: str, table: str, datasette: Any) -> Any:
    async def own() -> FilterArguments | None:
        try:
            found = await row_filters.conditions(
                datasette, datasette.get_database(database), table, request.args, actor=request.actor
            )
        except (ValueError, JobError) as problem:
            raise BadRequest(str(problem)) from problem
        return None if found is None else FilterArguments(found.clauses, found.params, found.descriptions)

    return own


@hookimpl
def table_actions(datasette: Any, actor: Any, database: str, table: str, request: Any) -> Any:
    return datasette_pages.table_links(datasette, actor, database, table, request)


@hookimpl(specname="table_actions", trylast=True)
def table_actions_links(datasette: Any, actor: Any, database: str, table: str) -> Any:
    return links_page.table_links(datasette, actor, database, table)


@hookimpl(specname="table_actions", trylast=True)
def table_actions_search(datasette: Any, actor: Any, database: str, table: str) -> Any:
    return search_page.table_links(datasette, actor, database, table)


@hookimpl
def view_actions(datasette: Any, actor: Any, database: str, view: str) -> Any:
    return search_page.table_links(datasette, actor, database, view)


@hookimpl
def row_actions(datasette: Any, actor: Any, request: Any, database: str, table: str, row: Any) -> Any:
    return datasette_pages.row_links(datasette, actor, database, table, request)


@hookimpl
def database_actions(datasette: Any, actor: Any, database: str, request: Any) -> Any:
    return datasette_pages.database_links(datasette, actor, database)


@hookimpl(specname="database_actions", trylast=True)
def database_actions_results(datasette: Any, actor: Any, database: str) -> Any:
    return stats_page.database_links(datasette, actor, database)


@hookimpl(specname="database_actions", trylast=True)
def database_actions_search(datasette: Any, actor: Any, database: str) -> Any:
    return search_page.database_links(datasette, actor, database)


@hookimpl
def menu_links(datasette: Any, actor: Any, request: Any) -> Any:
    return datasette_pages.main_links(datasette, actor)


@hookimpl
def top_table(datasette: Any, request: Any, database: str, table: str) -> Any:
    return banners.table_banner(datasette, request.actor, database, table)


@hookimpl
def top_row(datasette: Any, request: Any, database: str, table: str) -> Any:
    return banners.row_banner(datasette, request.actor, database, table, request)


@hookimpl(trylast=True)
def render_cell(row: Any, value: Any, column: str, table: str | None, database: str, datasette: Any) -> Any:
    return cells.render(datasette, database, table, row, column, value)


@hookimpl
def extra_template_vars(datasette: Any, request: Any) -> Any:
    return partial(cells.complete, datasette, request)


@hookimpl
def extra_css_urls(datasette: Any) -> Any:
    return cells.stylesheets(datasette)


@hookimpl
def extra_body_script(view_name: str, request: Any, datasette: Any, database: Any, table: Any) -> Any:
    return banners.banner_script(datasette, view_name, request, database, table)
