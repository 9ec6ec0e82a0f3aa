"""The OpenAPI document is valid, names every address and status of the API, and what is answered is what it says."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import openapi_spec_validator
import pydantic
import pytest

from datasette_ingest.jobs.enrichment import Enrichment
from datasette_ingest.jobs.errors import JobError
from datasette_ingest.jobs.model import Job
from datasette_ingest.jobs.service import control
from datasette_ingest.jobs.service.job_json import JobJson
from datasette_ingest.testing import run_until_idle
from datasette_ingest.web import openapi, routes

from .conftest import READER, ROOT, get, make_words, post_json, start

DOCUMENT = "/-/ingest-api.json"
JOBS = "/-/ingest-jobs/words"
WORD_JOB = {"table": "words", "enrichment": "shout", "config": {"column": "word"}}
PRIVATE = {"allow": {"id": "root"}}


@pytest.fixture
async def spec(ds: Any) -> dict[str, Any]:
    return (await get(ds, DOCUMENT)).json()


# ---- the document itself ----------------------------------------------------------------------------------------


async def test_the_document_is_valid_openapi(spec):
    openapi_spec_validator.validate(spec)
    assert spec["openapi"] == "3.1.0"
    assert {"ingest", "shout"} <= set(spec["components"]["schemas"]["Start"]["discriminator"]["mapping"])


async def test_the_document_has_every_address_of_the_api_and_no_other(spec):
    reads = {template(pattern) for pattern, _ in routes.routes() if "(?P<format>" in pattern}
    posts = {template(pattern.pattern) for pattern in routes.TAKES_JSON}
    described = {(path, method) for path, item in spec["paths"].items() for method in item}
    assert described == {(f"{path}.json", "get") for path in reads} | {(path, "post") for path in posts}


def template(pattern: str) -> str:
    """A route's regular expression as a path template, without the format's suffix."""
    path = re.sub(r"\(\?P<format>[^)]*\)\??", "", pattern.removeprefix("^").removesuffix("$"))
    return re.sub(r"\(\?P<(\w+)>[^)]*\)", r"{\1}", path)


@pytest.mark.parametrize(("base_url", "server"), [("/", "/"), ("/prefix/", "/prefix"), ("/a/b/", "/a/b")])
async def test_the_server_is_below_the_base_url(open_ds, base_url, server):
    ds = await open_ds(settings={"base_url": base_url})
    spec = (await get(ds, DOCUMENT)).json()  # Datasette's own client puts the base_url before it
    assert spec["servers"] == [{"url": server}]


async def test_whoever_may_view_the_instance_may_read_it(open_ds):
    public, private = await open_ds(), await open_ds(PRIVATE)
    assert [(await get(public, DOCUMENT, actor)).status_code for actor in (None, READER, ROOT)] == [200, 200, 200]
    assert [(await get(private, DOCUMENT, actor)).status_code for actor in (None, READER, ROOT)] == [403, 403, 200]
    assert (await get(private, DOCUMENT)).json()["ok"] is False


async def test_it_tells_nothing_of_the_data(open_ds, tmp_path):
    vault = tmp_path / "vault.db"
    make_words(vault, table="inheritance")
    plugin = {"contact": "mailto:tell-nobody@a.example", "allow": {"id": "curator"}}
    ds = await open_ds({"plugins": {"datasette-ingest": plugin}}, paths=[str(vault)])
    await start(ds, database="vault", table="inheritance", filters="year=1999")
    shown = (await get(ds, DOCUMENT, READER)).text
    secrets = ("vault", "inheritance", "1999", "tell-nobody", "curator", str(tmp_path))
    assert not [secret for secret in secrets if secret in shown]


async def test_with_cors_other_sites_may_read_it_as_datasettes_own_json(open_ds):
    for cors, allowed in ((False, None), (True, "*")):
        ds = await open_ds(cors=cors)
        assert (await get(ds, DOCUMENT)).headers.get("access-control-allow-origin") == allowed


# ---- settings of any enrichment ---------------------------------------------------------------------------------


class Place(pydantic.BaseModel):
    city: str


class Odd(Enrichment):
    """Its slug holds what no component's name may, and its settings refer to a model."""

    slug, name, description = "été/1", "Odd", ""

    class Config(pydantic.BaseModel):
        place: Place
        number: int = 3


class Unnameable(Enrichment):
    slug, name, description = "unnameable", "Unnameable", ""

    class Config(pydantic.BaseModel):
        call: Callable[[], int]


def test_settings_of_any_kind_have_a_place():
    spec = openapi.document(routes.operations(), [Odd(), Unnameable()])
    openapi_spec_validator.validate(spec)
    schemas = spec["components"]["schemas"]
    mapping = schemas["Start"]["discriminator"]["mapping"]
    assert set(mapping) == {"été/1", "unnameable"}
    begins = {"table": "t", "enrichment": "été/1"}
    errors_of = errors_in(spec, "Start")
    assert not errors_of({**begins, "config": {"place": {"city": "Paris"}}})
    assert not errors_of({**begins, "config": {}})  # what is required may be guessed from the table
    assert errors_of({**begins, "config": {"place": {"town": "Paris"}}})
    assert errors_of({**begins, "config": {"number": "three"}})
    assert errors_of({**begins, "colour": "red"})
    assert not errors_of({"table": "t", "enrichment": "unnameable", "config": {"call": "me"}})


def test_names_of_components_never_meet():
    slugs = ["a/b", "a.b", "a.2f.b", "a b", "a-b", "a_b", "ä", "Ä"]
    names = [openapi.component_name(slug) for slug in slugs]
    assert len(set(names)) == len(slugs)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for name in names)


# ---- what is answered is what it says ---------------------------------------------------------------------------


def errors_in(spec: dict[str, Any], schema: str) -> Callable[[Any], list[str]]:
    """What is wrong with a value under one of the document's schemas."""
    validator = jsonschema.Draft202012Validator({**spec, "$ref": f"#/components/schemas/{schema}"})
    return lambda value: [problem.message for problem in validator.iter_errors(value)]


def closed(spec: dict[str, Any]) -> dict[str, Any]:
    """The document with every object of named properties closed: what it does not name may not be there."""
    spec = copy.deepcopy(spec)
    for schema in _objects(spec["components"]["schemas"]):
        schema.setdefault("additionalProperties", False)
    return spec


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if value.get("type") == "object" and value.get("properties"):
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _objects(part)


def assert_as_described(spec: dict[str, Any], path: str, method: str, response: Any) -> None:
    """The status is one that the document names, and the body what it says, to the last key."""
    described = spec["paths"][path][method]["responses"]
    answer = described.get(str(response.status_code))
    assert answer is not None, f"{method} {path}: {response.status_code} is not described"
    if "$ref" in answer:
        answer = spec["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    reference = answer["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    assert errors_in(closed(spec), reference)(response.json()) == []
    assert response.headers["content-type"].startswith("application/json")
    for header in answer.get("headers", {}):
        assert response.headers[header]


READS = [
    (DOCUMENT, DOCUMENT),
    ("/-/ingest/{database}/{table}.json", "/-/ingest/words/words.json?year__gte=2002"),
    ("/-/ingest/{database}/{table}/{slug}.json", "/-/ingest/words/words/shout.json"),
    ("/-/ingest/{database}/{table}/{slug}.json", "/-/ingest/words/words/ingest.json?_where=id>1"),
    ("/-/ingest-jobs.json", "/-/ingest-jobs.json"),
    ("/-/ingest-jobs.json", "/-/ingest-jobs.json?status=finished&table=words"),
    ("/-/ingest-jobs/{database}.json", "/-/ingest-jobs/words.json"),
    ("/-/ingest-jobs/{database}/{id}.json", "/-/ingest-jobs/words/1.json"),
    ("/-/ingest-jobs/{database}/{id}.json", "/-/ingest-jobs/words/2.json"),
    ("/-/ingest-jobs/{database}/{id}/errors.json", "/-/ingest-jobs/words/1/errors.json"),
    ("/-/ingest-stats/{database}.json", "/-/ingest-stats/words.json"),
    ("/-/ingest-links/{database}/{table}.json", "/-/ingest-links/words/words.json?_column=word"),
    ("/-/ingest-search/{database}.json", "/-/ingest-search/words.json?q=cell"),
]


async def test_every_read_answers_as_described(ds, spec):
    await start(ds)
    await run_until_idle(ds)
    await start(ds, filters="_where=id>1", options={"batch_size": 1, "max_errors": None})
    for path, address in READS:
        response = await get(ds, address, ROOT)
        assert response.status_code == 200, address
        assert_as_described(spec, path, "get", response)
    assert {path for path, _ in READS} == {path for path, item in spec["paths"].items() if "get" in item}


async def test_a_page_of_many_jobs_is_as_described(ds, spec):
    for _ in range(51):
        await start(ds)
    response = await get(ds, "/-/ingest-jobs/words.json", ROOT)
    assert response.json()["next"] is not None
    assert_as_described(spec, "/-/ingest-jobs/{database}.json", "get", response)


async def test_every_change_answers_as_described(ds, spec):
    seen = set()

    async def change(address: str, body: Any, status: int, **headers: str) -> None:
        path = re.sub(r"/\d+/", "/{id}/", address.replace("words", "{database}"))
        response = await post_json(ds, address, body, ROOT, **headers)
        assert response.status_code == status, response.text
        assert_as_described(spec, path, "post", response)
        seen.add(path)

    await change(JOBS, WORD_JOB, 201)
    await change(f"{JOBS}/1/pause", {}, 200)
    await change(f"{JOBS}/1/resume", {}, 200)
    await run_until_idle(ds)
    await change(f"{JOBS}/1/cancel", {}, 409)
    await change(f"{JOBS}/1/retry", {"scope": "errors"}, 201, **{"Idempotency-Key": "a"})
    await change(f"{JOBS}/1/retry", {}, 422, **{"Idempotency-Key": "a"})
    await change(f"{JOBS}/2/cancel", {}, 200)
    assert seen == {path for path, item in spec["paths"].items() if "post" in item}


REFUSED_READS = [
    ("/-/ingest/{database}/{table}.json", "/-/ingest/words/words.json?yaer=1", 400),
    ("/-/ingest/{database}/{table}.json", "/-/ingest/words/quiet.json", 400),
    ("/-/ingest/{database}/{table}.json", "/-/ingest/words/nope.json", 404),
    ("/-/ingest/{database}/{table}/{slug}.json", "/-/ingest/words/words/nope.json", 404),
    ("/-/ingest-jobs.json", "/-/ingest-jobs.json?status=done", 400),
    ("/-/ingest-jobs.json", "/-/ingest-jobs.json?_next=x", 400),
    ("/-/ingest-jobs/{database}.json", "/-/ingest-jobs/nope.json", 404),
    ("/-/ingest-jobs/{database}/{id}.json", "/-/ingest-jobs/words/99.json", 404),
    ("/-/ingest-jobs/{database}/{id}.json", "/-/ingest-jobs/nope/1.json", 404),
    ("/-/ingest-jobs/{database}/{id}/errors.json", "/-/ingest-jobs/words/99/errors.json", 404),
    ("/-/ingest-jobs/{database}/{id}/errors.json", "/-/ingest-jobs/words/1/errors.json?_next=x", 400),
    ("/-/ingest-stats/{database}.json", "/-/ingest-stats/nope.json", 404),
    ("/-/ingest-links/{database}/{table}.json", "/-/ingest-links/words/words.json", 404),
    ("/-/ingest-links/{database}/{table}.json", "/-/ingest-links/words/words.json?_column=word&_next=x", 400),
    ("/-/ingest-search/{database}.json", "/-/ingest-search/words.json?_next=x", 400),
]


async def test_every_refusal_of_a_read_is_as_described(ds, spec):
    await start(ds)
    for path, address, status in REFUSED_READS:
        response = await get(ds, address, ROOT)
        assert (address, response.status_code) == (address, status)
        assert_as_described(spec, path, "get", response)
        assert response.json()["status"] == status


async def test_a_refusal_for_want_of_permission_is_as_described(open_ds):
    ds = await open_ds({"databases": {"words": {"allow": {"id": "root"}}}})
    spec = (await get(ds, DOCUMENT)).json()
    for path, address in READS:
        if address == DOCUMENT or path == "/-/ingest-jobs.json":
            continue
        response = await get(ds, address, READER)
        assert response.status_code == (404 if "{id}" in path else 403)
        assert_as_described(spec, path, "get", response)
    for path, address in (
        ("/-/ingest-jobs/{database}", JOBS),
        ("/-/ingest-jobs/{database}/{id}/retry", f"{JOBS}/1/retry"),
    ):
        response = await post_json(ds, address, {}, READER)
        assert response.status_code in (403, 404)
        assert_as_described(spec, path, "post", response)


async def test_a_locked_database_is_as_described(ds, spec, tmp_path, monkeypatch):
    await start(ds)
    monkeypatch.setattr(control, "BUSY_PAUSES", ())
    await ds.databases["words"].execute_write_fn(lambda conn: conn.execute("pragma busy_timeout = 0").fetchall())
    other = sqlite3.connect(tmp_path / "words.db", isolation_level=None)
    other.execute("begin immediate")
    try:
        started = await post_json(ds, JOBS, WORD_JOB, ROOT)
        paused = await post_json(ds, f"{JOBS}/1/pause", {}, ROOT)
    finally:
        other.close()
    assert (started.status_code, paused.status_code) == (503, 503)
    assert_as_described(spec, "/-/ingest-jobs/{database}", "post", started)
    assert_as_described(spec, "/-/ingest-jobs/{database}/{id}/pause", "post", paused)


async def test_a_start_that_the_document_refuses_is_refused(ds, spec):
    errors_of = errors_in(spec, "Start")
    good: list[dict[str, Any]] = [
        WORD_JOB,
        {**WORD_JOB, "filters": "year=2001", "options": {"batch_size": 1, "max_errors": None, "output": "shadow"}},
        {"table": "words", "enrichment": "ingest", "config": {"url_column": "word", "sources": ["live"]}},
    ]
    bad: list[dict[str, Any]] = [
        {},
        {**WORD_JOB, "table": ""},
        {**WORD_JOB, "enrichment": "nope"},
        {**WORD_JOB, "filters": 1},
        {**WORD_JOB, "colour": "red"},
        {**WORD_JOB, "config": {"column": "word", "mood": "sad"}},
        {**WORD_JOB, "config": {"column": "word", "volume": 11}},
        {**WORD_JOB, "options": {"batch_size": 0}},
        {**WORD_JOB, "options": {"max_errors": -1}},
        {**WORD_JOB, "options": {"output": "none"}},
        {**WORD_JOB, "options": {"speed": 1}},
        {"table": "words", "enrichment": "ingest", "config": {"url_column": "word", "sources": ["gossip"]}},
    ]
    for body in good:
        assert errors_of(body) == []
        assert (await post_json(ds, JOBS, body, ROOT)).status_code == 201, body
    for body in bad:
        assert errors_of(body) != []
        assert (await post_json(ds, JOBS, body, ROOT)).status_code == 400, body


def test_every_field_of_a_job_is_described():
    assert {field.name for field in dataclasses.fields(Job)} <= set(JobJson.model_fields)
    assert json.dumps(openapi.document(routes.operations(), []), ensure_ascii=True)


def test_the_statuses_of_refusals_are_those_that_the_code_raises():
    described = {status for _, _, operation in routes.operations() for status in operation.refusals}
    assert described == set(openapi.MEANINGS)
    raised = {kind.status for kind in _kinds_of(JobError)}
    assert raised - {405, 429} <= described  # another method is another request; dry runs are the form's alone


def _kinds_of(kind: type[Any]) -> Iterator[type[Any]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds_of(narrower)
