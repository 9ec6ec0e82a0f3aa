"""A bare loop over aiohttp doing the same work as a crawler would, and nothing else: no verdicts, no limits, no manners.

    python _crawl_bare.py DB TABLE CONCURRENCY

Prints what it saw as JSON.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import sys
from collections.abc import Iterator
from urllib.parse import urljoin

import _crawl_measure
import aiohttp
from lxml import etree

COMMIT_ROWS = 100
_LINK = etree.XPath("//meta[@name='citation_pdf_url']/@content")


async def chains(session: aiohttp.ClientSession, urls: Iterator[str], conn: sqlite3.Connection) -> None:
    for url in urls:
        async with session.get(url) as page:
            text, base = await page.read(), str(page.url)
        link = _LINK(etree.fromstring(text, etree.HTMLParser()))[0]
        async with session.get(urljoin(base, link)) as answer:
            body, terminal = await answer.read(), str(answer.url)
        digests = [hashlib.new(name, body).hexdigest() for name in ("sha1", "sha256", "md5")]
        cursor = conn.execute("insert into found values (?, ?, ?, ?, ?, ?)", [url, terminal, *digests, len(body)])
        if cursor.lastrowid and cursor.lastrowid % COMMIT_ROWS == 0:
            conn.commit()


async def crawl(path: str, table: str, concurrency: int) -> None:
    conn = sqlite3.connect(path)
    conn.execute("create table found (url, terminal_url, sha1, sha256, md5, size)")
    urls = iter([url for (url,) in conn.execute(f"select url from {table} order by rowid")])
    connector = aiohttp.TCPConnector(limit=concurrency)
    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(*(chains(session, urls, conn) for _ in range(concurrency)))
    conn.commit()
    conn.close()


def main() -> None:
    path, table, concurrency = sys.argv[1:]
    with _crawl_measure.Watch() as watch:
        asyncio.run(crawl(path, table, int(concurrency)))
    print(json.dumps(watch.seen()))


if __name__ == "__main__":
    main()
