"""Two thousand broken answers: every row ends with a slug of the table, none raises, none outlasts its deadline."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from datasette_ingest.ingest.errors import STATUSES, SUCCESS
from datasette_ingest.ingest.model import IngestRequest

from .origin import PDF, Origin, Raw, Request, gzipped, html, pdf, redirect, reply

SEED = 20261130
ROUNDS = 2000
DEADLINE = 1.0

SOUND = [
    pdf(),
    html('<meta name="citation_pdf_url" content="/fine.pdf">', "<p>words</p>"),
    redirect("/fine.pdf", headers={"Set-Cookie": "a=b; Path=/"}),
    reply(gzipped(PDF), headers={"Content-Encoding": "gzip"}),
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/pdf\r\n\r\n"
    + b"%x\r\n" % len(PDF)
    + PDF
    + b"\r\n0\r\n\r\n",
    reply(b"<article article-type='x'><front/><body>text</body></article>", content_type="text/xml"),
    reply(b"", status="429 Slow", headers={"Retry-After": "0"}),
]
SPICE = [
    b"\r\n", b"\n", b"\0", b"\xff\xfe", b":", b";", b",", b" ", b"\t", b"-1", b"99999999999999999999", b"chunked",
    b"Transfer-Encoding: chunked\r\n", b"Content-Length: 3\r\n", b"Content-Encoding: gzip\r\n", b"deflate", b"br",
    b"Location: //[::1]/\r\n", b"Location: \xe9\r\n", b"Retry-After: -1\r\n", b"\x1f\x8b\x08", b"%PDF-", b"<html>",
    b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/0.9", b"Connection: close\r\n", b"Set-Cookie: =;;=\r\n", b"0\r\n\r\n",
]  # fmt: skip


def mutate(answer: bytes, chance: random.Random) -> bytes:
    data = bytearray(answer)
    for _ in range(chance.randint(1, 6)):
        at = chance.randint(0, len(data))
        how = chance.randint(0, 5)
        if how == 0:
            data[at:at] = chance.choice(SPICE)
        elif how == 1:
            del data[at : at + chance.randint(1, 40)]
        elif how == 2 and at < len(data):
            data[at] = chance.randint(0, 255)
        elif how == 3:
            data[at:at] = data[at : at + chance.randint(1, 60)]
        elif how == 4:
            del data[at:]
        else:
            data[at:at] = bytes(chance.randint(0, 255) for _ in range(chance.randint(1, 20)))
    return bytes(data)


@pytest.mark.slow
async def test_no_answer_breaks_a_row(make_crawler: Any) -> None:
    chance = random.Random(SEED)
    answers = [
        Raw(mutate(chance.choice(SOUND), chance), chance.choice(["close", "close", "close", "reset", "keep", "hang"]))
        for _ in range(ROUNDS)
    ]

    async def broken(request: Request, writer: asyncio.StreamWriter) -> None:
        answer = answers[int(request.target.partition("?")[2])]
        for piece in (answer.data[:30], answer.data[30:]):
            writer.write(piece)
            await writer.drain()
        if answer.then == "reset":
            writer.transport.abort()
        elif answer.then != "close":
            await asyncio.sleep(2 * DEADLINE)

    loop = asyncio.get_running_loop()
    slowest = 0.0

    async def row(n: int) -> str:
        nonlocal slowest
        begin = loop.time()
        kind = ("pdf", "xml", "html")[n % 3]
        result = await crawler.ingest(IngestRequest(kind, site.url(f"/x?{n}")))
        slowest = max(slowest, loop.time() - begin)
        return result.status

    async with Origin({"/x": broken, "/fine.pdf": pdf()}) as site:
        crawler = make_crawler(timeout=0.3, deadline=DEADLINE, concurrency=64, per_host_concurrency=64)
        statuses: list[str] = []
        for start in range(0, ROUNDS, 64):
            statuses += await asyncio.gather(*(row(n) for n in range(start, min(start + 64, ROUNDS))))
    assert len(statuses) == ROUNDS
    assert set(statuses) <= {SUCCESS, *STATUSES}
    # A row is a handful of requests at most, and the machine may be busy.
    assert slowest < 6 * DEADLINE
    assert len(set(statuses)) > 8, "a fuzzer that finds little is none"
