"""Platforms are told by URLs and pages, and their APIs' answers are read, whatever they hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest.datasets.platforms import PLATFORMS, Dataset, Landing, recognise
from datasette_ingest.ingest.datasets.platforms.base import PAGE_SIZE
from datasette_ingest.ingest.errors import IngestError, Platform404, PlatformError, PlatformRestricted, PlatformScope

from .samples import TODAY, answer, landing


def known(url: str) -> Dataset:
    found = recognise(Landing(url, None, TODAY))
    assert found is not None, url
    return found


DATAVERSE = "https://data.example.org/dataset.xhtml?persistentId=doi:10.5072/FK2/TIDES1"
DATAVERSE_API = "https://data.example.org/api/datasets/:persistentId/?persistentId=doi%3A10.5072%2FFK2%2FTIDES1"


# Which platform


@pytest.mark.parametrize(
    ("url", "platform", "name", "api"),
    [
        (DATAVERSE, "dataverse", "doi:10.5072/FK2/TIDES1", DATAVERSE_API),
        (DATAVERSE + "&version=1.1", "dataverse", "doi:10.5072/FK2/TIDES1",
         "https://data.example.org/api/datasets/:persistentId/versions/1.1?persistentId=doi%3A10.5072%2FFK2%2FTIDES1"),
        (DATAVERSE + "&version=DRAFT", "dataverse", "doi:10.5072/FK2/TIDES1", DATAVERSE_API),
        ("https://h.example:8443/dvn/dataset.xhtml?persistentId=hdl:20.500/X", "dataverse", "hdl:20.500/X",
         "https://h.example:8443/dvn/api/datasets/:persistentId/?persistentId=hdl%3A20.500%2FX"),
        ("https://figshare.com/articles/dataset/Beetles_in_2020/19001234", "figshare", "19001234",
         "https://api.figshare.com/v2/articles/19001234"),
        ("https://figshare.com/articles/19001234/2", "figshare", "19001234.v2",
         "https://api.figshare.com/v2/articles/19001234/versions/2"),
        ("https://uni.figshare.com/articles/figure/2020/19001234", "figshare", "19001234",
         "https://api.figshare.com/v2/articles/19001234"),
        ("https://api.figshare.com/v2/articles/19001234/versions/2", "figshare", "19001234.v2",
         "https://api.figshare.com/v2/articles/19001234/versions/2"),
        ("https://zenodo.org/records/7100001?preview=1#files", "zenodo", "7100001",
         "https://zenodo.org/api/records/7100001"),
        ("https://zenodo.org/record/7100001", "zenodo", "7100001", "https://zenodo.org/api/records/7100001"),
        ("https://repository.example.ac.at/api/records/f2k8q-9xw31", "invenio", "f2k8q-9xw31",
         "https://repository.example.ac.at/api/records/f2k8q-9xw31"),
        ("https://archive.org/details/frog-calls-1998/calls/x.wav", "archive.org", "frog-calls-1998",
         "https://archive.org/metadata/frog-calls-1998"),
        ("http://www.archive.org/download/frog-calls-1998", "archive.org", "frog-calls-1998",
         "https://archive.org/metadata/frog-calls-1998"),
        ("https://datadryad.org/stash/dataset/doi:10.5061/dryad.abc12", "dryad", "doi:10.5061/dryad.abc12",
         "https://datadryad.org/api/v2/datasets/doi%3A10.5061%2Fdryad.abc12"),
        ("https://datadryad.org/dataset/doi%3A10.5061%2Fdryad.abc12", "dryad", "doi:10.5061/dryad.abc12",
         "https://datadryad.org/api/v2/datasets/doi%3A10.5061%2Fdryad.abc12"),
    ],
)  # fmt: skip
def test_a_url_form_tells_the_dataset_and_where_to_ask(url: str, platform: str, name: str, api: str) -> None:
    found = known(url)
    assert (found.platform, found.platform_id, found.request.url) == (platform, name, api)


@pytest.mark.parametrize(
    "url",
    [
        "https://h.example/dataset.xhtml",
        "https://h.example/articles/dataset/Beetles/19001234",
        "https://h.example/records/7100001",
        "https://notfigshare.com/articles/19001234",
        "https://figshare.com/",
        "https://zenodo.org/",
        "https://osf.io/login",
        "https://osf.io/preprints/psyarxiv/abcde",
        "https://archive.org/details/",
        "https://archive.org/details/%2e%2e",
        "https://web.archive.org/web/2020/https://h.example/",
        "https://datadryad.org/search",
        "https://h.example/dataset/doi:10.5061/dryad.abc12",
    ],
)
def test_what_only_looks_like_one_is_left_to_the_page(url: str) -> None:
    assert recognise(Landing(url, None, TODAY)) is None


@pytest.mark.parametrize(
    "url",
    [
        "https://figshare.com/collections/Beetles/5001234",
        "https://uni.figshare.com/projects/Beetles/1234",
        "https://zenodo.org/communities/mosses",
        "https://data.example.org/dataverse.xhtml?alias=harbour",
    ],
)
def test_a_collection_is_no_dataset(url: str) -> None:
    with pytest.raises(PlatformScope):
        recognise(Landing(url, None, TODAY))


@pytest.mark.parametrize(
    ("name", "platform", "platform_id"),
    [
        ("dataverse.html", "dataverse", "doi:10.5072/FK2/TIDES1"),
        ("dataverse_file.html", "dataverse", "hdl:20.500.99999/ELBE"),
        ("figshare_portal.html", "figshare", "19001234.v3"),
        ("zenodo.html", "zenodo", "7100001"),
        ("invenio_rdm.html", "invenio", "f2k8q-9xw31"),
    ],
)
def test_a_page_tells_the_dataset_where_the_host_is_unknown(name: str, platform: str, platform_id: str) -> None:
    found = recognise(landing(name))
    assert found is not None
    assert (found.platform, found.platform_id) == (platform, platform_id)


@pytest.mark.parametrize("name", ["catalogue.html", "signposted.html"])
def test_other_pages_are_no_platforms(name: str) -> None:
    assert recognise(landing(name)) is None


def test_a_page_of_a_file_without_a_link_back_is_known_by_its_doi() -> None:
    url = "https://data.example.org/file.xhtml?persistentId=doi:10.5072/FK2/TIDES1/AAAAAA"
    assert recognise(Landing(url, None, TODAY)) is None
    found = recognise(Landing(url, landing("catalogue.html").page, TODAY))
    assert found is not None and found.platform_id == "doi:10.5072/FK2/TIDES1"


# What their answers hold


def test_dataverse_lists_originals_of_converted_tables_in_their_folders() -> None:
    levels, readme = known(DATAVERSE).request.read(answer("dataverse.json")).files
    assert (levels.path, levels.size) == ("data/hourly/levels.dta", 14)
    assert levels.url == "https://data.example.org/api/access/datafile/7001?format=original"
    assert (levels.mimetype, list(levels.checksums)) == ("application/x-stata-13", ["md5"])
    assert (readme.path, readme.size, list(readme.checksums)) == ("README.txt", 12, ["sha256"])
    assert readme.url == "https://data.example.org/api/access/datafile/7002"


def test_dataverse_gives_a_numbered_version_without_a_dataset_round_it() -> None:
    version = {"status": "OK", "data": answer("dataverse.json")["data"]["latestVersion"]}
    assert len(known(DATAVERSE + "&version=1.0").request.read(version).files) == 2


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"restricted": True}, "platform-restricted"),
        ({"embargo": {"dateAvailable": "2026-12-01"}}, "platform-restricted"),
        ({"embargo": {"dateAvailable": "2026-11-30"}}, "not-tried"),
        ({"embargo": None}, "not-tried"),
    ],
)
def test_a_closed_file_of_dataverse_is_marked(change: dict[str, Any], status: str) -> None:
    found = answer("dataverse.json")
    file = found["data"]["latestVersion"]["files"][1]
    file.update({key: value for key, value in change.items() if key == "restricted"})
    file["dataFile"].update({key: value for key, value in change.items() if key == "embargo"})
    assert known(DATAVERSE).request.read(found).files[1].status == status


def test_a_withdrawn_dataset_of_dataverse_is_gone() -> None:
    found = answer("dataverse.json")
    found["data"]["latestVersion"]["versionState"] = "DEACCESSIONED"
    with pytest.raises(Platform404):
        known(DATAVERSE).request.read(found)


FIGSHARE = "https://figshare.com/articles/19001234"


def test_figshare_lists_its_files_page_by_page() -> None:
    first = known(FIGSHARE).request.read(answer("figshare.json"))
    (page,) = first.more
    assert page.url == f"https://api.figshare.com/v2/articles/19001234/files?page=1&page_size={PAGE_SIZE}"
    template = answer("figshare.json")["files"][0]
    full = page.read([{**template, "id": number, "name": f"{number}.csv"} for number in range(PAGE_SIZE)])
    (last,) = full.more
    assert (len(full.files), last.url) == (PAGE_SIZE, page.url.replace("page=1&", "page=2&"))
    assert last.read([]).more == ()
    again = last.read([{**template, "id": number} for number in range(PAGE_SIZE)])
    assert (again.files, again.more) == ((), ())


def test_a_file_of_figshare_has_its_checksum_and_a_link_elsewhere_has_no_size() -> None:
    (page,) = known(FIGSHARE).request.read(answer("figshare.json")).more
    template = answer("figshare.json")["files"][0]
    file, link = page.read([template, {**template, "id": 2, "is_link_only": True, "size": 0}]).files
    assert (file.path, file.size, file.url) == ("beetles.csv", 11, "https://ndownloader.figshare.com/files/33001")
    assert list(file.checksums) == ["md5"] and link.size is None


def test_figshare_says_what_is_not_open_and_what_has_no_files() -> None:
    question = known(FIGSHARE).request
    for mark in ("is_embargoed", "is_confidential"):
        with pytest.raises(PlatformRestricted):
            question.read({**answer("figshare.json"), mark: True})
    assert question.read({**answer("figshare.json"), "is_metadata_record": True}).more == ()


ZENODO = "https://zenodo.org/records/7100001"


def test_zenodo_lists_its_files_in_the_record() -> None:
    scan, packed = known(ZENODO).request.read(answer("zenodo.json")).files
    assert (scan.path, scan.size) == ("scan 1.png", 9)
    assert scan.url == "https://zenodo.org/api/records/7100001/files/scan%201.png/content"
    assert list(packed.checksums) == ["md5"]


@pytest.mark.parametrize("word", ["restricted", "embargoed", "closed"])
def test_a_record_of_zenodo_that_is_not_open_is_restricted(word: str) -> None:
    record = answer("zenodo.json")
    record["metadata"]["access_right"] = word
    assert {file.status for file in known(ZENODO).request.read(record).files} == {"platform-restricted"}
    with pytest.raises(PlatformRestricted):
        known(ZENODO).request.read({**record, "files": []})


def test_older_records_name_a_bucket() -> None:
    record = {"files": [{"key": "a b.csv", "bucket": "b-1", "size": 1, "checksum": "md5:" + "0" * 32}]}
    (file,) = known("https://b2share.example.org/api/records/" + "0" * 32).request.read(record).files
    assert file.url == "https://b2share.example.org/api/files/b-1/a%20b.csv"


RDM = "https://repository.example.ac.at/api/records/f2k8q-9xw31"


def test_invenio_rdm_is_asked_for_its_files_apart() -> None:
    (more,) = known(RDM).request.read(answer("invenio_rdm.json")).more
    assert more.url == RDM + "/files"
    (file,) = more.read(answer("invenio_rdm_files.json")).files
    assert (file.path, file.size, file.url) == ("pollen.csv", 7, RDM + "/files/pollen.csv/content")


def test_invenio_rdm_may_list_them_in_the_record() -> None:
    record = answer("invenio_rdm.json")
    (entry,) = answer("invenio_rdm_files.json")["entries"]
    record["files"]["entries"] = {"pollen.csv": {**entry, "links": {"self": RDM + "/files/pollen.csv"}}}
    (file,) = known(RDM).request.read(record).files
    assert file.url == RDM + "/files/pollen.csv/content"


@pytest.mark.parametrize("access", [{"files": "restricted"}, {"files": "public", "status": "embargoed"}])
def test_invenio_rdm_says_what_is_not_open(access: dict[str, str]) -> None:
    with pytest.raises(PlatformRestricted):
        known(RDM).request.read({**answer("invenio_rdm.json"), "access": access})


def test_invenio_rdm_knows_records_without_files() -> None:
    listing = known(RDM).request.read({**answer("invenio_rdm.json"), "files": {"enabled": False}})
    assert (listing.files, listing.more) == ((), ())


ITEM = "https://archive.org/details/frog-calls-1998"


def test_an_item_of_the_archive_lists_what_was_given_to_it() -> None:
    calls, table = known(ITEM).request.read(answer("archive_org.json")).files
    assert (calls.path, calls.size, sorted(calls.checksums)) == ("calls/bufo bufo.wav", 6, ["md5", "sha1"])
    assert calls.url == "https://archive.org/download/frog-calls-1998/calls/bufo%20bufo.wav"
    assert table.path == "list.csv"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"is_dark": True}, PlatformRestricted),
        ({"metadata": {"mediatype": "collection"}}, PlatformScope),
        ({"files": None}, PlatformError),
    ],
)
def test_the_archive_says_what_is_none(change: dict[str, Any], error: type[IngestError]) -> None:
    with pytest.raises(error):
        known(ITEM).request.read({**answer("archive_org.json"), **change})
    with pytest.raises(Platform404):
        known(ITEM).request.read({})


def test_a_lent_item_of_the_archive_is_closed() -> None:
    found = answer("archive_org.json")
    found["metadata"]["access-restricted-item"] = "true"
    assert {file.status for file in known(ITEM).request.read(found).files} == {"platform-restricted"}


DRYAD = "https://datadryad.org/dataset/doi:10.5061/dryad.abc12"


def test_dryad_leads_from_the_dataset_over_its_version_to_pages_of_files() -> None:
    (files,) = known(DRYAD).request.read(answer("dryad.json")).more
    assert files.url == "https://datadryad.org/api/v2/versions/4711/files?per_page=100"
    listing = files.read(answer("dryad_files.json"))
    (file,) = listing.files
    assert (file.path, file.size, file.url) == ("beaks.csv", 5, "https://datadryad.org/api/v2/files/1/download")
    assert list(file.checksums) == ["sha256"]
    assert [more.url for more in listing.more] == ["https://datadryad.org/api/v2/versions/4711/files?page=2"]


@pytest.mark.parametrize("href", ["https://elsewhere.example/api/v2/versions/1", "javascript:1", None, 5, "/login"])
def test_an_answer_of_dryad_leads_nowhere_else(href: Any) -> None:
    with pytest.raises(PlatformError):
        known(DRYAD).request.read({"_links": {"stash:version": {"href": href}}})


OSF = "https://osf.io/frogs/files/osfstorage"


def test_osf_leads_from_a_guid_to_folders_in_folders() -> None:
    question = known(OSF).request
    assert question.url == "https://api.osf.io/v2/guids/frogs/"
    (top,) = question.read({"data": {"type": "registrations", "id": "frogs"}}).more
    assert top.url == "https://api.osf.io/v2/registrations/frogs/files/osfstorage/?page%5Bsize%5D=100"
    listing = top.read(answer("osf.json"))
    assert [(file.path, file.size, sorted(file.checksums)) for file in listing.files] == [
        ("list.csv", 4, ["md5", "sha256"])
    ]
    (folder,) = listing.more
    assert [file.path for file in folder.read(answer("osf_folder.json")).files] == ["calls/bufo.wav"]
    again = {**answer("osf.json"), "links": {"next": top.url + "&page=2"}}
    assert [more.url for more in top.read(again).more] == [folder.url, top.url + "&page=2"]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"data": {"type": "preprints", "id": "frogs"}}, PlatformScope),
        ({"data": {"type": "nodes", "id": "../users"}}, PlatformError),
        ({"data": []}, PlatformError),
    ],
)
def test_osf_says_what_is_no_dataset(said: Any, error: type[IngestError]) -> None:
    with pytest.raises(error):
        known(OSF).request.read(said)


def test_a_folder_of_osf_leads_nowhere_else() -> None:
    (top,) = known(OSF).request.read({"data": {"type": "nodes", "id": "frogs"}}).more
    found = answer("osf.json")
    found["data"][0]["relationships"]["files"]["links"]["related"]["href"] = "https://elsewhere.example/"
    with pytest.raises(PlatformError):
        top.read(found)


# Anything


NAMES = [
    "data", "latestVersion", "files", "dataFile", "id", "key", "name", "links", "self", "content", "checksum", "entries", "count",
    "metadata", "access_right", "access", "status", "label", "size", "embargo", "dateAvailable", "_links", "_embedded",
    "stash:files", "stash:version", "href", "next", "path", "source", "originalFileFormat", "enabled", "bucket", "type",
    "attributes", "kind", "relationships", "related", "hashes", "extra", "download",
]  # fmt: skip
SHAPES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=25,
)


@given(SHAPES, st.sampled_from([DATAVERSE, FIGSHARE, ZENODO, RDM, ITEM, DRYAD, OSF]), st.booleans())
def test_an_answer_of_any_shape_is_a_list_or_an_outcome(value: Any, url: str, wrapped: bool) -> None:
    questions = [known(url).request]
    answers = [value, {"files": value}, {"data": {"files": value}}, {"entries": value}] if wrapped else [value]
    for question in questions:
        for said in answers:
            try:
                listing = question.read(said)
            except IngestError:
                continue
            assert all(file.path for file in listing.files)
            questions += listing.more if len(questions) < 3 else ()


def test_every_platform_is_tried_in_this_file() -> None:
    tried = {known(url).platform for url in (DATAVERSE, FIGSHARE, ZENODO, ITEM, DRYAD, OSF)}
    assert len(tried) == len(PLATFORMS)
