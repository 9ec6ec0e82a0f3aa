"""Addresses: encoded once, below base_url once."""

import pytest

from datasette_ingest.web import urls
from datasette_ingest.web.urls import Links, column_filter, key_label, row_path

from .conftest import make_words


@pytest.mark.parametrize(
    ("key", "path"),
    [(5, "5"), ("a/b", "a~2Fb"), (["a", 1], "a,1"), (["a,b", 1], "a~2Cb,1"), (1.5, "1~2E5"), (-3, "-3")],
)
def test_a_row_key_becomes_the_path_that_datasette_uses(key, path):
    assert row_path(key) == path


@pytest.mark.parametrize("key", [None, [], ["a", None], {"$blob": "00"}, b"x"])
def test_a_key_that_no_url_can_hold_has_no_path(key):
    assert row_path(key) is None


@pytest.mark.parametrize(("key", "label"), [(5, "5"), (["a", None], "a, NULL"), (None, "NULL")])
def test_a_key_is_readable(key, label):
    assert key_label(key) == label


def test_an_outcome_filter_survives_any_column_name():
    assert column_filter("_odd &name", "a=b&c") == "_odd+%26name__exact=a%3Db%26c"


async def test_every_address_has_base_url_once(open_ds):
    links = Links(await open_ds(settings={"base_url": "/prefix/"}))
    addresses = [
        links.choose("words", "words", "year=2001"),
        links.form("words", "words", "shout"),
        links.jobs(),
        links.jobs("words", table="words"),
        links.job("words", 1),
        links.job_json("words", 1),
        links.errors("words", 1),
        links.failures_csv("words", 1),
        links.rerun("words", "words", "shout", "year=2001", 1),
        links.log("words", 1),
        links.instance(),
        links.act("words", 1, "pause"),
        links.database("words"),
        links.table("words", "words", "year=2001"),
        links.row("words", "words", 1),
        links.static("ingest.css"),
    ]
    for address in addresses:
        assert address.startswith("/prefix/")
        assert address.count("/prefix/") == 1


async def test_names_are_tilde_encoded_and_databases_go_by_their_route(open_ds, tmp_path):
    path = tmp_path / "a b.c.db"
    make_words(path)
    links = Links(await open_ds(paths=[str(path)]))
    assert links.choose("a b.c", "x/y.z #?%~'\"[é]", "") == (
        "/-/ingest/a+b~2Ec/x~2Fy~2Ez+~23~3F~25~7E~27~22~5B~C3~A9~5D"
    )


async def test_a_static_address_changes_with_the_content(ds, tmp_path, monkeypatch):
    links = Links(ds)
    before = links.static("ingest.css")
    (tmp_path / "ingest.css").write_bytes(b"body {}")
    monkeypatch.setattr(urls, "STATIC", tmp_path)
    urls._digest.cache_clear()
    assert links.static("ingest.css") != before
    monkeypatch.undo()
    urls._digest.cache_clear()
