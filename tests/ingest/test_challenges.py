"""A page that checks its visitor is never followed, however it offers the way on."""

from __future__ import annotations

from typing import Any

import pytest

from .origin import Origin, html, pdf, redirect

NOINDEX = '<meta name="robots" content="noindex, nofollow">'
GATE = '<meta http-equiv="refresh" content="1; url=/{}">'
CHALLENGE = '<script src="/cdn-cgi/challenge-platform/h/b/orchestrate/jsch/v1"></script>'


@pytest.mark.parametrize(
    "head",
    [
        NOINDEX + GATE.format("gate?then=%2Farticle%2F1"),
        NOINDEX + GATE.format("gate?nonce=5&amp;url=http%3A%2F%2F127.0.0.1:PORT%2Farticle%2F1"),
        f"{NOINDEX}<noscript>{GATE.format('gate?back=/article/1')}</noscript>",
        CHALLENGE + GATE.format("gate"),
        CHALLENGE + '<link rel="alternate" type="application/pdf" href="/gate">',
        CHALLENGE + '<meta name="citation_pdf_url" content="/gate">',
    ],
)
@pytest.mark.parametrize("text", ["<h1>Nur einen Augenblick</h1>", "<p>確認中です</p>", ""])
async def test_a_challenge_is_judged_before_it_is_followed(ingest: Any, head: str, text: str) -> None:
    async with Origin({"/gate": redirect("/x.pdf"), "/x.pdf": pdf()}) as site:
        page = html(head.replace("PORT", str(site.port)), f'<div id="c">{text}</div>', title="Ein Moment")
        site.handlers["/article/1"] = page
        result = await ingest(site.url("/article/1"))
    assert (result.status, site.targets) == ("blocked-captcha", ["/article/1"])
    assert result.next_try_class.value == "later"


async def test_so_is_one_behind_a_link(ingest: Any) -> None:
    gate = html(NOINDEX + GATE.format("gate?r=%2Ffile%2F1"), "<p>Wait</p>")
    landing = html('<meta name="citation_title" content="T"><meta name="citation_pdf_url" content="/file/1">')
    async with Origin({"/article/1": landing, "/file/1": gate, "/gate": pdf()}) as site:
        result = await ingest(site.url("/article/1"))
    assert (result.status, site.targets) == ("blocked-captcha", ["/article/1", "/file/1"])


@pytest.mark.parametrize(
    "head",
    [
        GATE.format("x.pdf"),
        NOINDEX + GATE.format("x.pdf"),
        GATE.format("x.pdf?from=%2Farticle%2F1"),
        NOINDEX + GATE.format("x.pdf?p=/"),
    ],
)
async def test_an_honest_refresh_is_followed(ingest: Any, head: str) -> None:
    async with Origin({"/article/1": html(head, "<p>Your file comes in two seconds.</p>"), "/x.pdf": pdf()}) as site:
        assert (await ingest(site.url("/article/1"))).status == "success"
