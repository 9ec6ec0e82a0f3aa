"""Every address of ours x every kind of visitor x tables that are open, closed, gone x restricted tokens: who gets what,
and that nothing else leaks. What stored filters tell is in test_stored_filters.py.

The table EXPECTED below is the whole policy. A route that is not in it fails the first test.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from datasette_ingest import compat, sqlite
from datasette_ingest.ingest import schema as results
from datasette_ingest.jobs import schema as engine
from datasette_ingest.jobs.service import control
from datasette_ingest.testing import run_until_idle
from datasette_ingest.web import routes

from .conftest import cookies_of, get, start

VISITORS: dict[str, dict[str, Any] | None] = {
    "anonymous": None,
    "reader": {"id": "reader"},  # may view what is public, may enrich nothing
    "curator": {"id": "curator"},  # may enrich `words`; may enrich `cellar`, but not view it
    "root": {"id": "root"},
}
TABLES = ("words", "vault", "cellar")
CONFIG: dict[str, Any] = {
    "plugins": {"datasette-ingest": {"run_jobs": False}},
    "databases": {
        "library": {
            "allow_sql": {"id": "root"},
            "tables": {
                "words": {"plugins": {"datasette-ingest": {"allow": {"id": "curator"}}}},
                "vault": {"allow": {"id": "root"}},
                "cellar": {
                    "allow": {"id": "root"},
                    "plugins": {"datasette-ingest": {"allow": {"id": "curator"}}},
                },
            },
        }
    },
}

MAY, MAY_NOT, BLIND = "may enrich", "may not", "may enrich, not view"
RELATIONS = {(visitor, table): MAY if visitor == "root" else MAY_NOT for visitor in VISITORS for table in TABLES} | {
    ("curator", "words"): MAY,
    ("curator", "cellar"): BLIND,
}

EXPECTED: dict[tuple[str, str], dict[str, int]] = {
    # address and how it is asked                                 may         may not       blind
    ("/-/ingest-api", "GET"): {MAY: 200, MAY_NOT: 200, BLIND: 200},  # about no table
    ("/-/ingest-words/{slug}", "GET"): {MAY: 200, MAY_NOT: 200, BLIND: 200},
    ("/-/ingest/{database}/{table}", "GET"): {MAY: 200, MAY_NOT: 403, BLIND: 404},
    ("/-/ingest/{database}/{table}/{slug}", "GET"): {MAY: 200, MAY_NOT: 403, BLIND: 404},
    ("/-/ingest/{database}/{table}/{slug}", "form"): {MAY: 303, MAY_NOT: 403, BLIND: 404},
    ("/-/ingest/{database}/{table}/{slug}/preview", "form"): {MAY: 200, MAY_NOT: 403, BLIND: 404},
    ("/-/ingest/{database}/{table}/{slug}/try", "form"): {MAY: 200, MAY_NOT: 403, BLIND: 404},
    ("/-/ingest-jobs", "GET"): {MAY: 200, MAY_NOT: 200, BLIND: 200},  # lists what one may see
    ("/-/ingest-jobs/{database}", "GET"): {MAY: 200, MAY_NOT: 200, BLIND: 200},
    ("/-/ingest-jobs/{database}", "JSON"): {MAY: 201, MAY_NOT: 403, BLIND: 404},
    ("/-/ingest-jobs/{database}/{id}", "GET"): {MAY: 200, MAY_NOT: 404, BLIND: 404},
    ("/-/ingest-jobs/{database}/{id}/errors", "GET"): {MAY: 200, MAY_NOT: 404, BLIND: 404},
    ("/-/ingest-jobs/{database}/{id}/missed.csv", "GET"): {MAY: 200, MAY_NOT: 404, BLIND: 404},
    ("/-/ingest-jobs/{database}/{id}/pause", "JSON"): {MAY: 200, MAY_NOT: 404, BLIND: 404},
    ("/-/ingest-jobs/{database}/{id}/pause", "form"): {MAY: 303, MAY_NOT: 404, BLIND: 404},
    ("/-/ingest-jobs/{database}/{id}/resume", "JSON"): {MAY: 200, MAY_NOT: 404, BLIND: 404},
    ("/-/ingest-jobs/{database}/{id}/resume", "form"): {MAY: 303, MAY_NOT: 404, BLIND: 404},
    ("/-/ingest-jobs/{database}/{id}/cancel", "JSON"): {MAY: 200, MAY_NOT: 404, BLIND: 404},
    ("/-/ingest-jobs/{database}/{id}/cancel", "form"): {MAY: 303, MAY_NOT: 404, BLIND: 404},
    ("/-/ingest-jobs/{database}/{id}/retry", "JSON"): {MAY: 201, MAY_NOT: 404, BLIND: 404},
    ("/-/ingest-jobs/{database}/{id}/retry", "form"): {MAY: 303, MAY_NOT: 404, BLIND: 404},
    ("/-/ingest-links/{database}/{table}", "GET"): {MAY: 404, MAY_NOT: 403, BLIND: 404},  # no links were checked
    ("/-/ingest-links/{database}/{table}/report.csv", "GET"): {MAY: 404, MAY_NOT: 403, BLIND: 404},
    ("/-/ingest-stats/{database}", "GET"): {MAY: 403, MAY_NOT: 403, BLIND: 403},  # of all tables together: root alone
    ("/-/ingest-search/{database}", "GET"): {MAY: 403, MAY_NOT: 403, BLIND: 403},
    ("/-/ingest-body/{database}/{sha1}", "GET"): {MAY: 403, MAY_NOT: 403, BLIND: 403},
    ("/-/ingest-thumbnail/{database}/{sha1}", "GET"): {MAY: 403, MAY_NOT: 403, BLIND: 403},
}
ROOTS_ALONE = {
    "/-/ingest-stats/{database}": 200,
    "/-/ingest-search/{database}": 200,
    "/-/ingest-body/{database}/{sha1}": 404,  # none of its jobs has found a file
    "/-/ingest-thumbnail/{database}/{sha1}": 404,
}
"""Results of all tables, among them one that only root may view -> what root gets."""


# ---- every address ----------------------------------------------------------------------------------------------


def addresses() -> dict[str, list[str]]:
    """Every address of ours as a template, and the suffixes that it takes: '' for its page, '.json'."""
    found: dict[str, list[str]] = {}
    for pattern, _ in routes.routes():
        suffixes = [""]
        if r"(?P<format>\.json)?" in pattern:
            suffixes = ["", ".json"]
        elif r"(?P<format>\.json)" in pattern:
            suffixes = [".json"]
        path = re.sub(r"\(\?P<format>[^)]*\)\??", "", pattern.removeprefix("^").removesuffix("$"))
        template = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"{\1}", path)
        found[template.replace("\\.", ".")] = suffixes
    return found


def test_every_address_has_its_place_in_the_table():
    assert {address for address, _ in EXPECTED} == set(addresses())


@dataclass(frozen=True)
class Request:
    """One request about one table. `method`: GET, form or JSON."""

    address: str
    method: str
    path: str
    body: dict[str, Any]


def requests_about(table: str, ids: dict[str, int]) -> Iterator[Request]:
    for address, method in EXPECTED:
        job = ids["pending" if address.endswith(("pause", "cancel")) else "paused" if "resume" in address else "over"]
        names = {"database": "library", "table": table, "slug": "shout", "id": job, "sha1": "a" * 40}
        body: dict[str, Any] = {}
        if (address, method) == ("/-/ingest-jobs/{database}", "JSON"):
            body = {"table": table, "enrichment": "shout", "config": {"column": "motto"}}
        elif "{slug}" in address:
            body = {"config.column": "motto", "config.output": "shouted", "config.mood": "calm"}
        for suffix in addresses()[address] if method == "GET" else [""]:
            yield Request(address, method, address.format(**names) + suffix, body)


# ---- the world --------------------------------------------------------------------------------------------------


@dataclass
class World:
    """A Datasette over `library.db`, in which each table has a job that is over, one that waits and one that rests."""

    datasette: Any
    path: Any
    ids: dict[str, dict[str, int]]
    tokens: dict[str, tuple[str, str]]

    def contents(self) -> str:
        with contextlib.closing(sqlite3.connect(self.path)) as conn:
            return "\n".join(conn.iterdump())

    async def send(self, request: Request, visitor: str, *, restricted: Any = None, **headers: str) -> Any:
        """The request as this visitor's browser, on our own page, would send it.

        :param restricted: the actions that the visitor's token is restricted to, as Datasette has them in `_r`
        """
        actor = VISITORS[visitor] if restricted is None else {**(VISITORS[visitor] or {}), "_r": restricted}
        client, cookies = self.datasette.client, cookies_of(self.datasette, actor)
        if request.method == "GET":
            return await client.get(request.path, cookies=cookies)
        sent = {"Sec-Fetch-Site": "same-origin", **headers}
        if request.method == "JSON":
            return await client.post(request.path, json=request.body, cookies=cookies, headers=sent)
        cookie, token = self.tokens[visitor]
        if cookie:
            cookies["ds_csrftoken"] = cookie
        return await client.post(request.path, data={"csrftoken": token, **request.body}, cookies=cookies, headers=sent)


def hidden_words(table: str) -> tuple[str, ...]:
    """What is known only to those who may view the table: names, a URL, a job's filters and errors."""
    return (f"codename_{table}", f"https://{table}.example/s3cret", f"Nobody_{table}")


@pytest.fixture
async def world(open_ds: Any, tmp_path: Any) -> World:
    path = tmp_path / "library.db"
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        for table in TABLES:
            conn.execute(f"create table {table} (id integer primary key, motto text, codename_{table} text)")
            rows = [(f"Nobody_{table}", f"https://{table}.example/s3cret"), (None, None)]
            conn.executemany(f"insert into {table} (motto, codename_{table}) values (?, ?)", rows)
    datasette = await open_ds(CONFIG, paths=[str(path)])
    about = {"database": "library", "config": {"column": "motto"}}
    over = {}
    await compat.write(datasette.databases["library"], engine.migrate)
    await datasette.databases["library"].execute_write(
        "update _enrichment_sequence set seq = 7000"  # numbers that stand on no page by chance
    )
    for table in TABLES:
        over[table] = await start(datasette, table=table, filters="id__gte=1", **about)
    await run_until_idle(datasette)
    pending = {
        table: await start(datasette, table=table, filters=f"codename_{table}__contains=s3cret", **about)
        for table in TABLES
    }
    paused = {table: await start(datasette, table=table, **about) for table in TABLES}
    for job in paused.values():
        await control.pause(datasette, "library", job.id, actor=VISITORS["root"])
    ids = {
        table: {"over": over[table].id, "pending": pending[table].id, "paused": paused[table].id} for table in TABLES
    }
    tokens = {visitor: await _form_token(datasette, actor) for visitor, actor in VISITORS.items()}
    return World(datasette, path, ids, tokens)


async def _form_token(datasette: Any, actor: Any) -> tuple[str, str]:
    """The cookie and the field that the 0.65 line wants of a form; ('', '') on 1.0."""
    shown = await get(datasette, "/-/messages", actor)
    token = re.search(r'name="csrftoken" value="([^"]+)"', shown.text)
    return shown.cookies.get("ds_csrftoken", ""), token[1] if token else ""


def everything_in(response: Any) -> str:
    return "\n".join([response.text, *(f"{name}: {value}" for name, value in response.headers.items())])


# ---- who gets what ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("visitor", ["anonymous", "reader", "curator"])
async def test_whoever_may_not_learns_nothing_and_changes_nothing(world, visitor):
    before, wrong = world.contents(), []
    for table in TABLES:
        relation = RELATIONS[visitor, table]
        if relation == MAY:
            continue
        private = [word for other in ("vault", "cellar") for word in hidden_words(other)]
        for request in requests_about(table, world.ids[table]):
            response = await world.send(request, visitor)
            expected = EXPECTED[request.address, request.method][relation]
            if response.status_code != expected:
                wrong.append((request.method, request.path, response.status_code, expected))
            said = everything_in(response)
            wrong += [(request.path, word) for word in private if word in said]
            if table not in request.path and table not in str(request.body):
                wrong += [(request.path, name) for name in ("vault", "cellar") if name in said]
    assert wrong == []
    assert world.contents() == before


@pytest.mark.parametrize("visitor", ["anonymous", "reader", "curator"])
async def test_what_is_closed_and_what_is_not_there_look_the_same(world, visitor):
    nowhere = {"over": 9001, "pending": 9002, "paused": 9003}
    for table in TABLES:
        if RELATIONS[visitor, table] == MAY:
            continue
        made_up = "cellars" if table == "cellar" else "nosuch"
        pairs = zip(requests_about(table, world.ids[table]), requests_about(made_up, nowhere), strict=True)
        for real, unreal in pairs:
            names_the_table = "{table}" in real.address or "table" in real.body
            if RELATIONS[visitor, table] == BLIND and names_the_table:  # nothing is granted on what is not there
                continue
            seen, unseen = await world.send(real, visitor), await world.send(unreal, visitor)
            assert (real.path, seen.status_code) == (real.path, unseen.status_code)
            assert _anonymous(seen.text, real) == _anonymous(unseen.text, unreal)
            assert sorted(seen.headers) == sorted(unseen.headers)


async def test_a_closed_job_and_one_that_is_not_there_take_the_same_questions(world, monkeypatch):
    asked: list[str] = []

    def counting(name: str) -> None:
        ask = getattr(compat, name)

        async def counted(*given: Any, **named: Any) -> Any:
            asked.append(name)
            return await ask(*given, **named)

        monkeypatch.setattr(compat, name, counted)

    for name in ("read", "can_view", "can_enrich", "can_execute_sql"):
        counting(name)
    for visitor in ("anonymous", "reader", "curator"):
        questions = []
        for job_id in (world.ids["vault"]["over"], world.ids["cellar"]["over"], 9001):
            asked.clear()
            assert (
                await get(world.datasette, f"/-/ingest-jobs/library/{job_id}.json", VISITORS[visitor])
            ).status_code == 404
            questions.append(list(asked))
        assert questions[0] == questions[1] == questions[2]
        assert len(questions[0]) > 2


def _anonymous(text: str, request: Request) -> str:
    """A page without what was asked for, and without what is new each time."""
    text = text.replace(request.path, "PATH")
    for name in filter(None, re.findall(r"/library/(\w+)", request.path)):
        text = re.sub(rf"\b{name}\b", "NAME", text)
    return re.sub(r'name="csrftoken" value="[^"]+"', "TOKEN", text)


@pytest.mark.parametrize(
    ("visitor", "table"), [pair for pair, relation in RELATIONS.items() if relation == MAY], ids=" ".join
)
async def test_whoever_may_gets_what_the_table_says(world, visitor, table):
    wrong = []
    for request in requests_about(table, world.ids[table]):
        await _back_to_the_start(world)
        response = await world.send(request, visitor)
        expected = EXPECTED[request.address, request.method][MAY]
        if visitor == "root":
            expected = ROOTS_ALONE.get(request.address, expected)
        if response.status_code != expected:
            wrong.append((request.method, request.path, response.status_code, expected))
        if visitor != "root":
            said = everything_in(response)
            wrong += [(request.path, word) for word in ("vault", "cellar") if word in said]
    assert wrong == []


async def _back_to_the_start(world: World) -> None:
    for ids in world.ids.values():
        for state, status in (("over", "finished"), ("pending", "pending"), ("paused", "paused")):
            await world.datasette.databases["library"].execute_write(
                "update _enrichment_jobs set status = ? where id = ?", [status, ids[state]]
            )


async def test_in_a_closed_database_nobody_but_root_finds_anything(open_ds, world):
    closed = {"plugins": CONFIG["plugins"], "databases": {"library": {"allow": {"id": "root"}}}}
    closed["databases"]["library"]["plugins"] = {"datasette-ingest": {"allow": {"id": "*"}}}
    world.datasette = await open_ds(closed, paths=[str(world.path)])
    before = world.contents()
    for visitor in ("anonymous", "reader", "curator"):
        world.tokens[visitor] = await _form_token(world.datasette, VISITORS[visitor])
        for table in TABLES:
            for request in requests_about(table, world.ids[table]):
                response = await world.send(request, visitor)
                about_nothing = "{database}" not in request.address
                assert response.status_code == 200 if about_nothing else response.status_code in (403, 404), request
                said = everything_in(response)
                assert not [word for word in (*hidden_words(table), "motto") if word in said], request
                if about_nothing:
                    assert "library" not in said
    assert world.contents() == before


@pytest.mark.parametrize("allow", [{"id": "*"}, {"id": "nobody"}])
async def test_a_closed_database_and_one_that_is_not_there_look_the_same(open_ds, world, allow):
    own = {"datasette-ingest": {"run_jobs": False, "allow": allow}}
    closed = {"plugins": own, "databases": {"library": {"allow": {"id": "root"}}}}
    world.datasette = await open_ds(closed, paths=[str(world.path)])
    for visitor in ("anonymous", "reader"):
        world.tokens[visitor] = await _form_token(world.datasette, VISITORS[visitor])
        for real in requests_about("words", world.ids["words"]):
            if "{database}" not in real.address:
                continue
            unreal = dataclasses.replace(real, path=real.path.replace("/library", "/museum"))
            seen, unseen = await world.send(real, visitor), await world.send(unreal, visitor)
            assert (real, seen.status_code) == (real, unseen.status_code)
            assert seen.status_code in (403, 404)
            alike = [re.sub("library|museum", "NAME", _anonymous(each.text, real)) for each in (seen, unseen)]
            assert alike[0] == alike[1]
            assert sorted(seen.headers) == sorted(unseen.headers)


# ---- tables that are gone ---------------------------------------------------------------------------------------

GONE = {
    "dropped": "drop table {0}",
    "renamed": "alter table {0} rename to moved",
    "renamed to a name of ours": "alter table {0} rename to ingest_hits",
    "replaced by a view": "drop table {0}; create view other as select 1 as motto",
}


def change(world: World, statements: str) -> None:
    with contextlib.closing(sqlite3.connect(world.path)) as conn, conn:
        conn.executescript(statements)


@pytest.mark.parametrize("how", GONE)
async def test_a_table_that_is_gone_and_its_jobs_are_as_if_they_had_never_been(world, how):
    change(world, GONE[how].format("words"))
    before, wrong = world.contents(), []
    for visitor in ("anonymous", "reader", "curator"):
        relation = BLIND if visitor == "curator" else MAY_NOT  # the setting names a table that is not there
        nowhere = {"over": 9001, "pending": 9002, "paused": 9003}
        pairs = zip(requests_about("words", world.ids["words"]), requests_about("words", nowhere), strict=True)
        for gone, never in pairs:
            response, other = await world.send(gone, visitor), await world.send(never, visitor)
            expected = EXPECTED[gone.address, gone.method][relation]
            if response.status_code != expected:
                wrong.append((visitor, gone.method, gone.path, response.status_code, expected))
            alike = [
                re.sub(r"\b[79]\d\d\d\b|\b\d\b", "N", _anonymous(r.text, q))
                for r, q in ((response, gone), (other, never))
            ]
            if alike[0] != alike[1] or sorted(response.headers) != sorted(other.headers):
                wrong.append((visitor, gone.path, "differs from", never.path))
    assert wrong == []
    assert world.contents() == before
    over = world.ids["words"]["over"]
    assert (await get(world.datasette, f"/-/ingest-jobs/library/{over}.json", VISITORS["root"])).status_code == 200


@pytest.mark.parametrize("how", GONE)
async def test_tables_of_ours_close_when_a_source_is_gone(open_ds, filled, how):
    opened = {"plugins": CONFIG["plugins"]}
    filled.datasette = await open_ds(opened, paths=[str(filled.path)])
    assert (await get(filled.datasette, "/library/ingest_request.json")).status_code == 200
    change(filled, GONE[how].format("words") if "ours" not in how else "alter table words rename to ingest_hit")
    for visitor, actor in VISITORS.items():
        for table in OURS:
            is_open = visitor == "root" or table in ("_enrichments_vault", "_enrichments_cellar")
            path = filled.datasette.urls.table("library", table) + ".json"
            response = await get(filled.datasette, path, actor)
            assert (visitor, table, response.status_code) == (visitor, table, 200 if is_open else 403)


# ---- restricted tokens ------------------------------------------------------------------------------------------

VIEW, ENRICH, SQL, DATABASE, INSTANCE = "view-table", "enrich-table", "execute-sql", "view-database", "view-instance"
ACTIONS = [(VIEW, ENRICH), (VIEW,), (ENRICH,), (SQL,), (DATABASE, INSTANCE), (VIEW, DATABASE, INSTANCE, SQL)]


def restrict(level: str, actions: tuple[str, ...]) -> dict[str, Any]:
    return {
        "instance": {"a": list(actions)},
        "database": {"d": {"library": list(actions)}},
        "table": {"r": {"library": {"words": list(actions)}}},
        "other table": {"r": {"library": {"vault": list(actions)}}},
        "table, other letters": {"r": {"library": {"WORDS": list(actions)}}},
    }[level]


@pytest.mark.parametrize("level", ["instance", "database", "table", "other table", "table, other letters"])
@pytest.mark.parametrize("visitor", ["root", "curator"])
async def test_a_restricted_token_may_what_it_says_and_no_more(world, visitor, level):
    wrong = []
    for actions in ACTIONS:
        relation = _relation_of_token(compat.is_1_0(world.datasette), level, actions)
        needed = {VIEW, ENRICH} if compat.is_1_0(world.datasette) else {ENRICH}
        sees_others = level == "other table" and visitor == "root" and needed <= set(actions)
        for request in requests_about("words", world.ids["words"]):
            if relation == MAY:
                await _back_to_the_start(world)
            response = await world.send(request, visitor, restricted=restrict(level, actions))
            expected = EXPECTED[request.address, request.method][relation]
            asked = LISTS.get(request.address) if request.method == "GET" else None
            if asked is not None and compat.is_1_0(world.datasette):
                action, levels = asked
                sees_jobs = (relation == MAY or sees_others) and "jobs" in request.address
                expected = 200 if (action in actions and level in levels) or sees_jobs else 403
            if visitor == "root" and request.address in ROOTS_ALONE:
                reads_all = {VIEW, DATABASE} <= set(actions) and level in ("instance", "database")
                reads_all = reads_all or not compat.is_1_0(world.datasette)
                expected = ROOTS_ALONE[request.address] if reads_all else 403
            if response.status_code != expected:
                wrong.append((actions, request.method, request.path, response.status_code, expected))
            if not sees_others and relation != MAY:
                said = everything_in(response)
                wrong += [(actions, request.path, word) for word in ("vault", "cellar") if word in said]
    assert wrong == []


LISTS = {
    "/-/ingest-api": (INSTANCE, ["instance"]),
    "/-/ingest-words/{slug}": (INSTANCE, ["instance"]),
    "/-/ingest-jobs": (INSTANCE, ["instance"]),
    "/-/ingest-jobs/{database}": (DATABASE, ["instance", "database"]),
}
"""Addresses about no table, with the action and the levels at which a token may have it."""


def _relation_of_token(is_1_0: bool, level: str, actions: tuple[str, ...]) -> str:
    """What a token may do with `words`. The 0.65 line has no restricted tokens: there only what this plugin grants is."""
    enriches = level != "other table" and ENRICH in actions
    views = (level != "other table" and VIEW in actions) or not is_1_0
    return MAY if enriches and views else BLIND if enriches else MAY_NOT


# ---- rights on one table, without its database --------------------------------------------------------------------

ONE_TABLE: dict[str, Any] = {
    "plugins": CONFIG["plugins"],
    "databases": {
        "library": {
            "allow": {"id": "root"},
            "tables": {
                "words": {
                    "allow": {"id": ["root", "curator"]},
                    "plugins": {"datasette-ingest": {"allow": {"id": "curator"}}},
                }
            },
        }
    },
}


@pytest.mark.parametrize("level", ["database", "instance"])
async def test_rights_on_one_table_are_enough_for_all_that_is_about_it(open_ds, world, level):
    config = dict(ONE_TABLE)
    if level == "instance":
        config |= {
            "allow": {"id": "root"},
            "databases": {"library": {"tables": ONE_TABLE["databases"]["library"]["tables"]}},
        }
    world.datasette = await open_ds(config, paths=[str(world.path)])
    world.tokens["curator"] = await _form_token(world.datasette, VISITORS["curator"])
    assert (await get(world.datasette, "/library", VISITORS["curator"])).status_code == 403
    wrong = []
    for request in requests_about("words", world.ids["words"]):
        await _back_to_the_start(world)
        response = await world.send(request, "curator")
        expected = EXPECTED[request.address, request.method][MAY]
        if request.address in ("/-/ingest-api", "/-/ingest-words/{slug}") and level == "instance":
            expected = 403
        if response.status_code != expected:
            wrong.append((request.method, request.path, response.status_code, expected))
        wrong += [(request.path, word) for word in ("vault", "cellar") if word in everything_in(response)]
    assert wrong == []
    listed = (await get(world.datasette, "/-/ingest-jobs/library.json", VISITORS["curator"])).json()["jobs"]
    assert {job["table_name"] for job in listed} == {"words"}
    page = (await get(world.datasette, "/library/words", VISITORS["curator"])).text
    assert "Enrich selected rows" in page
    assert "Enrichment jobs (" in page
    for visitor in ("anonymous", "reader"):
        world.tokens[visitor] = await _form_token(world.datasette, VISITORS[visitor])
        for request in requests_about("words", world.ids["words"]):
            response = await world.send(request, visitor)
            wrong += [(request.path, word) for word in ("motto", "Nobody") if word in everything_in(response)]
            if "{database}" in request.address or level == "instance":
                assert response.status_code in (403, 404), request
    assert wrong == []


async def test_where_nothing_may_be_seen_lists_are_refused(open_ds, world):
    world.datasette = await open_ds({**CONFIG, "allow": {"id": "root"}}, paths=[str(world.path)])
    for visitor in ("anonymous", "reader"):
        for path in ("/-/ingest-jobs", "/-/ingest-jobs.json", "/-/ingest-jobs/library", "/-/ingest-jobs/nosuch"):
            response = await get(world.datasette, path, VISITORS[visitor])
            assert (path, response.status_code) == (path, 403)
    for path in ("/-/ingest-jobs", "/-/ingest-jobs.json", "/-/ingest-jobs/library"):
        assert (await get(world.datasette, path, VISITORS["root"])).status_code == 200


@pytest.mark.parametrize("visitor", ["anonymous", "reader", "curator"])
async def test_no_list_of_what_is_allowed_names_what_is_closed(open_ds, filled, visitor):
    if not compat.is_1_0(filled.datasette):
        pytest.skip("this Datasette line cannot list what a permission allows")
    everywhere = {"datasette-ingest": {"run_jobs": False, "allow": True}}
    for config in (CONFIG, {**CONFIG, "plugins": everywhere}):
        filled.datasette = await open_ds(config, paths=[str(filled.path)])
        closed = [table for table in OURS if table != "_enrichments_words"] + ["vault", "cellar"]
        for action in ("enrich-table", "view-table", "view-database", "insert-row", "drop-table", "execute-sql"):
            listed = await get(filled.datasette, f"/-/allowed.json?action={action}&_size=200", VISITORS[visitor])
            assert listed.status_code == 200
            named = {item["child"] for item in listed.json()["items"]}
            if action in ("enrich-table", "view-table"):
                assert named & set(closed) == set(), action
                assert ("words" in named) is (action == "view-table" or visitor == "curator")


# ---- requests from elsewhere ------------------------------------------------------------------------------------

ELSEWHERE = {
    "cross-site": {"Sec-Fetch-Site": "cross-site"},
    "same-site": {"Sec-Fetch-Site": "same-site"},
    "another origin": {"Origin": "https://evil.example"},
    "another port": {"Origin": "http://localhost:81"},
    "an opaque origin": {"Origin": "null"},
    "no header at all": {},
}


@pytest.mark.parametrize(
    ("elsewhere", "cors"), [*((elsewhere, False) for elsewhere in ELSEWHERE), ("cross-site", True)]
)
async def test_a_post_with_roots_cookie_from_elsewhere_is_refused(world, elsewhere, cors):
    world.datasette.cors = cors
    before = world.contents()
    cookies = cookies_of(world.datasette, VISITORS["root"])
    with_token = cookies | {"ds_csrftoken": world.tokens["root"][0]}
    posts = [request for request in requests_about("words", world.ids["words"]) if request.method != "GET"]
    assert {request.method for request in posts} == {"form", "JSON"}
    for request in posts:
        send = world.datasette.client.post
        bodies: list[dict[str, Any]] = [{"json": request.body, "cookies": cookies}]
        # text/plain is the type that a form of a stranger's page can make look like JSON
        bodies.append({"content": b"{}", "cookies": cookies, "headers": {"Content-Type": "text/plain"}})
        bodies.append({"data": {**request.body, "csrftoken": world.tokens["root"][1]}, "cookies": with_token})
        for body in bodies:
            headers = body.pop("headers", {}) | ELSEWHERE[elsewhere]
            response = await send(request.path, headers=headers, **body)
            assert response.status_code == 403, (request, body)
    assert world.contents() == before


async def test_a_browser_elsewhere_is_never_told_that_it_may_post(world):
    world.datasette.cors = True
    for request in requests_about("words", world.ids["words"]):
        if request.method == "GET":
            continue
        asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
        asked["Access-Control-Request-Headers"] = "content-type"
        response = await world.datasette.client.options(request.path, headers=asked)
        allowed = response.headers.get("access-control-allow-origin")
        # a browser sends the POST only after a 2xx that allows it; and never cookies to a wildcard
        assert not (200 <= response.status_code < 300 and allowed), request
        assert "access-control-allow-credentials" not in response.headers


# ---- tables and views of ours -----------------------------------------------------------------------------------

OURS = [*engine.TABLES, *results.TABLES, *results.VIEWS, *(f"_enrichments_{table}" for table in TABLES)]


@pytest.fixture
async def filled(world: World) -> World:
    """The same with every table and view that the plugin can make, each table with a row that nobody should see."""
    with contextlib.closing(sqlite3.connect(world.path)) as conn, conn:
        engine.migrate(conn)
        results.migrate(conn, [*results.TABLES, *results.VIEWS])
        for table in TABLES:
            sql = f"create table _enrichments_{table} (id integer primary key, shouted text)"
            sqlite.make(conn, f"_enrichments_{table}", sql)
            conn.execute(f"insert into _enrichments_{table} values (1, 'https://{table}.example/s3cret')")
        conn.execute(
            "insert into ingest_request (ingest_type, base_url, source, source_id, created) "
            "values ('pdf', 'https://vault.example/s3cret', 'vault', '1', '2026-01-01T00:00:00Z')"
        )
    return world


PAGES = ("{}", "{}.json", "{}.csv", "{}.json?_shape=array")
ROW_PAGES = ("{}/1", "{}/1.json")


def key_of(path: pathlib.Path, table: str) -> list[str]:
    with contextlib.closing(sqlite3.connect(path)) as conn:
        return [name for (name,) in conn.execute("select name from pragma_table_info(?) where pk > 0", [table])]


@pytest.mark.parametrize("visitor", VISITORS)
async def test_tables_and_views_of_ours_are_as_closed_as_their_sources(filled, visitor):
    assert len(OURS) > 10
    opened, leaks = {}, []
    for table in OURS:
        statuses = set()
        has_id = table.startswith("_enrichment") and len(key_of(filled.path, table)) == 1
        for page in (*PAGES, *(ROW_PAGES if has_id else ())):
            path = page.format(filled.datasette.urls.table("library", table))
            response = await get(filled.datasette, path, VISITORS[visitor])
            statuses.add(response.status_code)
            if response.status_code != 200:
                said = everything_in(response)
                leaks += [(path, word) for other in TABLES for word in hidden_words(other) if word in said]
        opened[table] = statuses
    assert leaks == []
    if visitor == "root":
        assert all(200 in statuses for statuses in opened.values())
        assert not [table for table, statuses in opened.items() if statuses & {401, 403, 500}]
        return
    # `words` is open, and so is its shadow table; every other one holds something of a closed table
    assert 200 in opened.pop("_enrichments_words")
    assert all(statuses == {403} for statuses in opened.values()), opened


@pytest.mark.parametrize("visitor", ["anonymous", "reader", "curator"])
async def test_no_page_of_datasettes_own_names_what_is_closed(filled, visitor):
    pages = ["/", "/.json", "/library", "/library.json", "/library/words", "/library/words/1", "/library/words.json"]
    pages += ["/library/_enrichments_words", "/-/plugins.json", "/-/databases.json", "/-/jobs", "/-/actor.json"]
    closed = [table for table in OURS if table != "_enrichments_words"] + ["vault", "cellar"]
    for page in pages:
        response = await get(filled.datasette, page, VISITORS[visitor])
        said = everything_in(response)
        names = [name for name in closed if re.search(rf"(?<![\w-]){name}(?![\w-])", said)]
        assert names == [], page
        assert not [word for table in ("vault", "cellar") for word in hidden_words(table) if word in said], page


async def test_with_every_source_open_everybody_reads_the_results(open_ds, filled):
    filled.datasette = await open_ds({"plugins": CONFIG["plugins"]}, paths=[str(filled.path)])
    for visitor in VISITORS:
        for table in OURS:
            path = filled.datasette.urls.table("library", table) + ".json"
            response = await get(filled.datasette, path, VISITORS[visitor])
            assert (visitor, table, response.status_code) == (visitor, table, 200)
