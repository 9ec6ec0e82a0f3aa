"""Cells of Datasette's own pages that hold results: badges, first pages; everything else as Datasette shows it."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from datasette import hookimpl
from datasette.plugins import pm

from datasette_ingest import compat
from datasette_ingest.ingest.pages import cells as page_cells
from datasette_ingest.ingest.pages.cells import badge

from .conftest import READER, ROOT, get
from .test_search import Archive, closed, sha1

BADGE = (
    '<a class="ingest-status-badge ingest-good" href="/-/ingest-words/ingest#success" '
    'title="The wanted file was found.">success</a>'
)
PICTURE = f'<img src="/-/ingest-thumbnail/works/{sha1(1)}" alt="First page" loading="lazy">'


@pytest.fixture
def archive(tmp_path: pathlib.Path) -> Archive:
    made = Archive(tmp_path / "works.db")
    made.document(1, "A cell.", "Of cells")
    made.document(2, "A lung.")  # without a picture
    return made


def cells(page: str, column: str) -> list[str]:
    """What the cells of a column show, as HTML."""
    found = re.findall(rf'<td class="col-{re.escape(column)} [^"]*"[^>]*>(.*?)</td>', page, re.DOTALL)
    return [" ".join(cell.split()) for cell in found]


async def shown(archive: Archive, open_ds: Any, path: str, column: str, actor: Any = ROOT, **config: Any) -> list[str]:
    datasette = await open_ds(config.pop("config", closed()), paths=[str(archive.path)], **config)
    answer = await get(datasette, path, actor)
    assert answer.status_code == 200
    return cells(answer.text, column)


async def test_a_row_has_a_badge_a_first_page_and_a_link(open_ds: Any, archive: Archive) -> None:
    first, second = await shown(archive, open_ds, "/works/papers", "ingest_status")
    assert first == second == BADGE
    first, second = await shown(archive, open_ds, "/works/papers", "ingest_terminal_sha1hex")
    assert first == f'<span class="ingest-page1">{PICTURE}{sha1(1)}</span>'
    assert second == sha1(2)
    first, _ = await shown(archive, open_ds, "/works/papers", "ingest_terminal_url")
    assert first == '<a href="https://host1.example/1.pdf">https://host1.example/1.pdf</a>'


@pytest.mark.parametrize("path", ["/works/papers/11", "/works/papers?_col=ingest_terminal_sha1hex&id=11"])
async def test_it_is_so_on_a_rows_page_and_with_few_columns(open_ds: Any, archive: Archive, path: str) -> None:
    assert await shown(archive, open_ds, path, "ingest_terminal_sha1hex") == [
        f'<span class="ingest-page1">{PICTURE}{sha1(1)}</span>'
    ]


async def test_the_stylesheet_is_there_where_it_is_needed(open_ds: Any, archive: Archive) -> None:
    archive.sql("create table other (id integer primary key)")
    datasette = await open_ds(paths=[str(archive.path)])
    assert "ingest.css" in (await get(datasette, "/works/ingest_file_result", ROOT)).text
    assert "ingest.css" not in (await get(datasette, "/works/other", ROOT)).text


async def test_our_own_tables_and_views_are_shown_likewise(open_ds: Any, archive: Archive) -> None:
    page1 = f'<span class="ingest-page1">{PICTURE}{sha1(1)}</span>'
    assert (await shown(archive, open_ds, "/works/ingest_file_result", "status"))[0] == BADGE
    assert (await shown(archive, open_ds, "/works/ingest_file_result", "terminal_sha1hex"))[0] == page1
    assert (await shown(archive, open_ds, "/works/ingest_fulltext", "sha1hex"))[0] == page1
    assert (await shown(archive, open_ds, "/works/ingest_documents", "sha1hex"))[0] == page1
    assert await shown(archive, open_ds, "/works/ingest_thumbnail", "content") == [
        f'<span class="ingest-page1">{PICTURE}</span>'
    ]
    archive.sql(
        "insert into ingest_candidate values ('pdf', 'http://h/1', 1, 'http://h/2', 'r', 'not-tried', null, null)"
    )
    [tried] = await shown(archive, open_ds, "/works/ingest_candidate", "outcome")
    assert tried.endswith('title="Other links came first, so this one was not tried.">not-tried</a>')


async def test_a_view_and_a_query_over_the_columns_are_shown_likewise(open_ds: Any, archive: Archive) -> None:
    archive.sql("create view good as select * from papers where ingest_hit = 1")
    datasette = await open_ds(paths=[str(archive.path)])
    for path in ("/works/good", "/works?sql=select+*+from+papers"):
        page = await datasette.client.get(path, follow_redirects=True)
        assert page.status_code == 200
        assert f"{PICTURE}{sha1(1)}" in page.text and BADGE in page.text, path


async def test_columns_of_a_users_own_are_left_as_they_are(open_ds: Any, archive: Archive) -> None:
    digest, columns = sha1(1), "ingest_status text, ingest_terminal_sha1hex text"
    archive.sql(f"create table partly (id integer primary key, sha1hex text, status text, {columns})")
    archive.sql("insert into partly values (1, ?, 'success', 'success', ?)", digest, digest)
    archive.job("partly")  # it wrote elsewhere
    archive.sql("create table wholly as select * from papers")  # no job ever wrote to it
    for table in ("partly", "wholly"):
        assert (await shown(archive, open_ds, f"/works/{table}", "ingest_status"))[0] == "success"
        assert (await shown(archive, open_ds, f"/works/{table}", "ingest_terminal_sha1hex"))[0] == digest
    archive.sql(
        "update papers set ingest_status = 'my own <word>', ingest_terminal_sha1hex = upper(ingest_terminal_sha1hex) || 'x'"
    )
    assert (await shown(archive, open_ds, "/works/papers", "ingest_status"))[0] == "my own &lt;word&gt;"
    assert (await shown(archive, open_ds, "/works/papers", "ingest_terminal_sha1hex"))[0] == sha1(1) + "x"


async def test_who_may_not_read_the_results_sees_no_first_pages(open_ds: Any, archive: Archive) -> None:
    archive.sql("create table secret (id integer primary key)")
    archive.job("secret")
    given = {"config": closed("secret")}
    assert (await shown(archive, open_ds, "/works/papers", "ingest_terminal_sha1hex", READER, **given))[0] == sha1(1)
    assert PICTURE in (await shown(archive, open_ds, "/works/papers", "ingest_terminal_sha1hex", ROOT, **given))[0]


async def test_json_and_csv_are_what_they_were(open_ds: Any, archive: Archive) -> None:
    datasette = await open_ds(paths=[str(archive.path)])
    for path in ("papers.json?_shape=array", "papers.csv", "ingest_file_result.json", "ingest_thumbnail.json"):
        assert "ingest-thumbnail" not in (answer := await get(datasette, f"/works/{path}", ROOT)).text
        assert "ingest-status-badge" not in answer.text


async def test_a_page_of_a_thousand_rows_asks_once_for_pictures(
    open_ds: Any, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.sql(
        "with recursive n(i) as (values (100) union all select i + 1 from n where i < 1097) "
        "insert into papers (id, ingest_status, ingest_terminal_sha1hex) select i, 'success', printf('%040x', i) from n"
    )
    datasette = await open_ds(paths=[str(archive.path)])
    reads, read = [], compat.read

    async def counted(*args: Any, **more: Any) -> Any:
        reads.append(args)
        return await read(*args, **more)

    monkeypatch.setattr(compat, "read", counted)
    await get(datasette, "/works/papers?_size=1", ROOT)
    few = len(reads)
    page = await get(datasette, "/works/papers?_size=1000", ROOT)
    assert len(cells(page.text, "ingest_status")) == 1000
    assert len(reads) == 2 * few


class Shouting:
    """Another plugin that renders every status."""

    __name__ = "shouting cells"

    @hookimpl
    def render_cell(self, value: Any, column: str) -> Any:
        return value.upper() if column == "ingest_status" and isinstance(value, str) else None


@pytest.fixture
def other_plugin() -> Iterator[None]:
    plugin = Shouting()
    pm.register(plugin, name="shouting-cells")
    yield
    pm.unregister(plugin)


async def test_another_plugins_rendering_wins(open_ds: Any, archive: Archive, other_plugin: None) -> None:
    assert await shown(archive, open_ds, "/works/papers", "ingest_status") == ["SUCCESS", "SUCCESS"]
    assert PICTURE in (await shown(archive, open_ds, "/works/papers", "ingest_terminal_sha1hex"))[0]


async def test_the_base_url_is_in_each_address_once(open_ds: Any, archive: Archive) -> None:
    [first, _] = await shown(
        archive, open_ds, "/works/papers", "ingest_terminal_sha1hex", settings={"base_url": "/prefix/"}
    )
    assert f'src="/prefix/-/ingest-thumbnail/works/{sha1(1)}"' in first


async def test_the_http_status_beside_it_says_whether_another_try_is_worth_it(open_ds: Any, archive: Archive) -> None:
    archive.sql("update papers set ingest_status = 'terminal-bad-status', ingest_terminal_status_code = 503 + id - 11")
    archive.sql("update papers set ingest_terminal_status_code = 410 where id = 12")
    soon, never = await shown(archive, open_ds, "/works/papers", "ingest_status")
    assert "ingest-due" in soon and "ingest-due" not in never


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        ("success", "ingest-good", "The wanted file was found."),
        ("read-timeout", "ingest-due", "Wait: a job with --due tries it again"),
        ("blocked-wall", None, "A login page was served instead of the file."),
        ("spn2-error:unknown", None, "The capture service failed."),
    ],
)
def test_a_badge_says_what_the_status_means(status: str, kind: str | None, says: str) -> None:
    made = badge(status, None, "/words")
    assert f">{status}</a>" in made and says in made and "`" not in made
    assert re.findall(r"ingest-(?:good|due)", made) == ([kind] if kind else [])


async def test_cells_stay_as_they_are_while_the_database_cannot_be_asked(
    open_ds: Any, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasette = await open_ds(paths=[str(archive.path)])

    async def locked(*args: Any) -> Any:
        raise compat.Unavailable("the database is locked")

    monkeypatch.setattr(page_cells, "_pictures", locked)
    page = (await get(datasette, "/works/papers", ROOT)).text
    assert cells(page, "ingest_terminal_sha1hex")[0] == sha1(1)
    monkeypatch.setattr(page_cells, "_ours", locked)
    page = (await get(datasette, "/works/papers", ROOT)).text
    assert cells(page, "ingest_status")[0] == "success"
