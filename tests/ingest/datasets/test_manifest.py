"""What a page says of a dataset's files, and that nothing it says can do harm."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest.datasets.manifest import (
    MAX_LISTED,
    MAX_PATH,
    MAX_SIZE,
    clean_path,
    described_files,
    entry,
    read_dataset_page,
    read_json,
    read_linkset,
    whole,
)
from datasette_ingest.ingest.errors import NOT_TRIED, PlatformError
from datasette_ingest.ingest.page.json_ld import nodes_of
from datasette_ingest.ingest.urls import split

from .samples import page

HERE = "https://h.example/data/1"


def described(*distribution: Any, **more: Any) -> Any:
    node = {"@type": "Dataset", "distribution": list(distribution), **more}
    return described_files(nodes_of(node), HERE)


# schema.org


def test_a_catalogue_page_lists_the_files_of_its_own_dataset() -> None:
    found = page("catalogue.html")
    geopackage, table = described_files(found.nodes, found.url)
    assert (geopackage.path, geopackage.url) == ("outlines.gpkg", "https://files.example.net/outlines.gpkg?download")
    assert (geopackage.size, geopackage.mimetype) == (None, "application/geopackage+sqlite3")
    assert list(geopackage.checksums) == ["md5"]
    assert (table.path, table.url) == ("outlines.csv", "https://geodata.example.net/files/outlines.csv")
    assert (table.size, table.mimetype, list(table.checksums)) == (8, "text/csv", ["sha256"])


def test_a_page_that_describes_no_dataset_lists_nothing() -> None:
    article = {"@type": "ScholarlyArticle", "encoding": {"@type": "MediaObject", "contentUrl": "/a.pdf"}}
    assert described_files(nodes_of(article), HERE) == ()


def test_one_file_needs_no_list_and_a_text_is_its_address() -> None:
    (one,) = described_files(nodes_of({"@type": "Dataset", "distribution": {"contentUrl": "/a.csv"}}), HERE)
    (other,) = described_files(nodes_of({"@type": "Dataset", "distribution": "b.csv"}), HERE)
    assert (one.url, other.url) == ("https://h.example/a.csv", "https://h.example/data/b.csv")


@pytest.mark.parametrize(
    ("said", "size"),
    [(12, 12), ("12", 12), ("12 B", 12), ("12 bytes", 12), ({"value": "12"}, 12), (12.0, 12), ("1.2 kB", None),
     ("12 kB", None), ("about 12", None), (-1, None), ("-1", None), (True, None), (1e300, None), ([12], None)],
)  # fmt: skip
def test_only_an_exact_size_counts(said: Any, size: int | None) -> None:
    (found,) = described({"contentUrl": "/a", "contentSize": said})
    assert found.size == size


MD5 = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    "where",
    [
        {"md5": MD5.upper()},
        {"identifier": f"md5:{MD5}"},
        {"identifier": ["https://h/1", {"@type": "PropertyValue", "propertyID": "MD5", "value": MD5}]},
        {"additionalProperty": [{"name": "md5", "value": MD5}]},
        {"checksum": {"algorithm": "MD5", "checksumValue": MD5}},
    ],
)
def test_a_checksum_may_stand_in_several_places(where: dict[str, Any]) -> None:
    (found,) = described({"contentUrl": "/a", **where})
    assert found.checksums == {"md5": MD5}


def test_files_that_are_not_for_everybody_are_marked() -> None:
    (closed,) = described({"contentUrl": "/a", "isAccessibleForFree": "False"})
    (all_closed,) = described({"contentUrl": "/a"}, isAccessibleForFree=False)
    assert {closed.status, all_closed.status} == {"platform-restricted"}


def test_a_file_without_an_address_is_marked() -> None:
    (nowhere,) = described({"name": "a.csv"})
    (script,) = described({"contentUrl": "javascript:alert(1)"})
    assert (nowhere.status, nowhere.url, script.status, script.url) == ("platform-error", None, "bad-scheme", None)


# Signposting


def test_items_come_from_headers_and_from_the_head_and_belong_to_the_page() -> None:
    table, scan = page("signposted.html").items
    assert (table.path, table.url, table.mimetype) == (
        "a b.csv",
        "https://signs.example.org/object/42/a%20b.csv",
        "text/csv",
    )
    assert (scan.path, scan.url) == ("Scan of the front", "https://signs.example.org/object/42/scan.tif")


def test_links_that_stand_in_a_file_of_their_own_are_named() -> None:
    headers = ['</links>; rel="linkset"; type="application/linkset+json", </links.txt>; rel=linkset; type=application/linkset',
               '</about.json>; rel="describedby"; type="application/ld+json"']  # fmt: skip
    found = read_dataset_page(b"", HERE, "", headers)
    assert found.linksets() == ("https://h.example/links",)
    assert found.descriptions() == ("https://h.example/about.json",)


def test_a_link_set_gives_the_items_of_the_page() -> None:
    value = {"linkset": [
        {"anchor": "https://h.example/data/2", "item": [{"href": "https://h.example/other.csv"}]},
        {"anchor": HERE, "item": [{"href": "/own.csv", "type": "text/csv"}, "nonsense"], "author": [{"href": "/x"}]},
    ]}  # fmt: skip
    (own,) = read_linkset(value, base="https://h.example/links", page_url=HERE)
    assert (own.url, own.mimetype) == ("https://h.example/own.csv", "text/csv")
    assert read_linkset({"linkset": value["linkset"][:1] * 2}, base=HERE, page_url=HERE) == ()


@pytest.mark.parametrize("value", [None, [], {}, "linkset", {"links": []}])
def test_what_is_no_link_set_is_said_to_be_none(value: Any) -> None:
    with pytest.raises(PlatformError):
        read_linkset(value, base=HERE, page_url=HERE)


# Values of any kind


@pytest.mark.parametrize(
    ("path", "clean"),
    [
        ("a/b.csv", "a/b.csv"),
        ("/etc/passwd", "etc/passwd"),
        ("../../a", "a"),
        ("a/./b//c", "a/b/c"),
        ("..\\..\\a\\b", "a/b"),
        ("a\x00b\n.csv", "ab.csv"),
        ("\x1b[31mred\x9b31m", "[31mred31m"),
        (" . / .. /x ", "x"),
        ("..", ""),
        ("ü/ñ.csv", "ü/ñ.csv"),
        ("a\ud800b", "a?b"),
    ],
)
def test_a_path_leads_nowhere_but_down(path: str, clean: str) -> None:
    assert clean_path(path) == clean


@given(st.text(alphabet="./\\ a\x00\ud800", max_size=40), st.integers(0, 2))
def test_no_path_leaves_its_folder(start: str, long: int) -> None:
    path = clean_path(start + "/.." * (long * MAX_PATH))
    assert len(path) <= MAX_PATH and not path.startswith("/")
    assert not {".", "..", ""} & set(path.split("/")) or path == ""
    assert clean_path(path) == path
    path.encode("utf-8")


def test_a_name_of_ten_thousand_characters_is_cut() -> None:
    assert len(entry("x" * 10_000, url="/a", base=HERE).path) == MAX_PATH


def test_a_file_without_a_name_is_called_by_its_address() -> None:
    urls = ["/files/a%20b.csv", "/files/x.csv/content", "/", "/%00/"]
    assert [entry(None, url=url, base=HERE).path for url in urls] == ["a b.csv", "x.csv", "file", "file"]


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(
        ["@type", "@id", "@graph", "distribution", "contentUrl", "contentSize", "name", "identifier", "value", "sha256",
         "additionalProperty", "checksum", "algorithm", "linkset", "item", "href", "anchor", "isAccessibleForFree"]),
        inner | st.just("Dataset"), max_size=5),
    max_leaves=20,
)  # fmt: skip


@given(ANY_JSON)
def test_json_of_any_shape_gives_harmless_entries(value: Any) -> None:
    for file in described_files(nodes_of({"@type": "Dataset", "distribution": value}), HERE):
        assert file.path and (file.size is None or 0 <= file.size <= MAX_SIZE)
        assert file.url is None or split(file.url).scheme in ("http", "https")
        assert (file.url is not None) or file.status != NOT_TRIED
    try:
        read_linkset(value, base=HERE, page_url=HERE)
    except PlatformError:
        pass


@given(ANY_JSON, ANY_JSON, ANY_JSON, ANY_JSON)
def test_an_entry_can_be_made_of_anything(path: Any, url: Any, size: Any, digest: Any) -> None:
    file = entry(path, url=url, base=HERE, size=size, checksums=[(digest, digest)], mimetype=path)
    json.dumps(file.to_json()).encode()


@pytest.mark.parametrize("value", ["9" * 5000, 2**60, -5, "٣", "1e3", None, float("nan"), float("inf")])
def test_what_is_no_size_is_none(value: Any) -> None:
    assert whole(value) is None


@pytest.mark.parametrize("data", [b"", b"<html>", b"[" * 200_000, b"\xff\xfe\xfd", b"9" * 5000, b'{"a": '])
def test_what_is_no_json_is_an_outcome(data: bytes) -> None:
    with pytest.raises(PlatformError):
        read_json(data, HERE)


def test_a_page_without_an_element_has_only_its_headers() -> None:
    found = read_dataset_page(b"  \x00", HERE, "", ["</a.csv>; rel=item"])
    assert [link.href for link in found.links] == ["https://h.example/a.csv"]


def test_a_list_without_end_is_cut_one_beyond_the_limit() -> None:
    node = {"@type": "Dataset", "distribution": ["/a"] * (MAX_LISTED + 50)}
    assert len(described_files(nodes_of(node), HERE)) == MAX_LISTED + 1
    value = {"linkset": [{"item": [{"href": "/a"}] * (MAX_LISTED + 50)}]}
    assert len(read_linkset(value, base=HERE, page_url=HERE)) == MAX_LISTED + 1
