"""A page names its file, and the file cannot be had: which of the page's other files are worth a try."""

from __future__ import annotations

from typing import Any

import pytest

from .origin import PDF, Origin, html, pdf, redirect, reply

TITLE = "Salt marshes of the northern estuary"
NAMED = f'<meta name="citation_title" content="{TITLE}"><meta name="citation_pdf_url" content="/bitstreams/1/download">'
REFUSED = reply(b"{}", status="401 Unauthorized", content_type="application/json")
GONE = reply(b"gone", status="404 Not Found")
OTHER = pdf(PDF + b"% other\n")


async def answer(ingest: Any, body: str, named: bytes, *, head: str = NAMED, page: str = "/handle/123/4567") -> Any:
    async with Origin({page: html(head, f"<h1>{TITLE}</h1><h5>Files</h5>{body}", title=TITLE)}) as site:
        site.handlers |= {"/bitstreams/1/download": named, "/login": reply(b"<h1>Log in</h1>")}
        for path in body.split('href="')[1:]:
            site.handlers.setdefault(path.partition('"')[0], OTHER)
        return await ingest(site.url(page))


@pytest.mark.parametrize(
    "paperwork",
    [
        '<a href="/bitstreams/9/Lizenzvertrag.pdf">Lizenzvertrag.pdf</a>',
        '<a href="/bitstreams/9/x.pdf">Согласие.pdf</a>',
        '<a href="/bitstreams/9/x.pdf">利用許諾書.pdf (20 KB)</a>',
        '<a href="/bitstream/handle/123/4567/Autorizacion.pdf">Autorizacion.pdf</a>',
        '<a href="/bitstreams/9/download">PDF</a>',
        '<a href="/bitstreams/9/a.pdf">a.pdf</a> <a href="/bitstreams/10/b.pdf">b.pdf</a>',
        '<iframe src="/bitstreams/9/cc.pdf" title="x"></iframe><a href="/bitstreams/9/cc.pdf">cc.pdf</a>',
    ],
)
@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden", "402 Payment Required", "451 Unavailable"])
async def test_of_a_refused_file_the_refusal_is_the_answer(ingest: Any, paperwork: str, status: str) -> None:
    result = await answer(ingest, paperwork, reply(b"{}", status=status, content_type="application/json"))
    assert (result.status, str(result.terminal_status_code)) == ("terminal-bad-status", status[:3])
    assert [outcome.outcome for outcome in result.candidates][1:].count("not-tried") >= 1
    assert any("nothing shows that this is the work" in (outcome.reason or "") for outcome in result.candidates)


async def test_a_file_that_every_file_list_names_is_no_more_the_work(ingest: Any) -> None:
    item = '<link rel="item" type="application/pdf" href="/bitstreams/9/deposit.pdf">'
    result = await answer(ingest, '<a href="/bitstreams/9/deposit.pdf">deposit.pdf</a>', REFUSED, head=NAMED + item)
    assert result.terminal_status_code == 401


async def test_a_file_behind_a_login_is_refused_as_well(ingest: Any) -> None:
    login = redirect("/login")
    result = await answer(ingest, '<a href="/bitstreams/9/Agreement.pdf">Agreement.pdf</a>', login)
    assert result.status == "blocked-wall"


@pytest.mark.parametrize(
    "own",
    [
        '<a href="/bitstreams/2/Salt_marshes_2021.pdf">Salt_marshes_2021.pdf</a>',
        '<a href="/bitstreams/2/x.pdf">Salt marshes of the northern estuary (PDF)</a>',
        '<a href="/download/4567.pdf">PDF</a>',
        '<a href="/handle/4567/pdf">PDF</a>',
    ],
)
async def test_another_copy_of_the_work_is_taken(ingest: Any, own: str) -> None:
    assert (await answer(ingest, own, REFUSED)).status == "success"


@pytest.mark.parametrize("label", ["PDF", "Download PDF", "Volltext (PDF)", "PDF ダウンロード"])
async def test_for_a_file_that_is_gone_another_that_calls_itself_the_file_is_taken(ingest: Any, label: str) -> None:
    assert (await answer(ingest, f'<a href="/x/1">{label}</a>', GONE)).status == "success"


async def test_but_no_file_that_may_be_anything(ingest: Any) -> None:
    result = await answer(ingest, '<a href="/x/CC_BY_4.0.pdf">CC_BY_4.0.pdf</a>', GONE)
    assert (result.status, result.terminal_status_code) == ("terminal-bad-status", 404)
