"""Scrapy over the same table of URLs: select citation_pdf_url, fetch it, three digests, a row into SQLite.

    python _crawl_scrapy.py DB TABLE CONCURRENCY plain|tuned

Prints what it saw as JSON. Politeness is off in both forms; `tuned` is what one would find in a day of profiling.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import _crawl_measure
import scrapy
from scrapy.crawler import CrawlerProcess

COMMIT_ROWS = 100

POLITENESS_OFF = {
    "ROBOTSTXT_OBEY": False,
    "DOWNLOAD_DELAY": 0,
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
}
_MIDDLEWARE = "scrapy.downloadermiddlewares."
_SPIDER_MIDDLEWARE = "scrapy.spidermiddlewares."
TUNED = {
    # A hundred tasks are made for each response otherwise, one an item that it might have.
    "CONCURRENT_ITEMS": 2,
    "COOKIES_ENABLED": False,
    "RETRY_ENABLED": False,
    "REFERER_ENABLED": False,
    "HTTPPROXY_ENABLED": False,
    "METAREFRESH_ENABLED": False,
    "COMPRESSION_ENABLED": False,
    "DOWNLOADER_STATS": False,
    "LOG_ENABLED": False,
    "STATS_DUMP": False,
    "MEMUSAGE_ENABLED": False,
    "STATS_CLASS": "scrapy.statscollectors.DummyStatsCollector",
    "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
    "EXTENSIONS": {
        "scrapy.extensions.corestats.CoreStats": None,
        "scrapy.extensions.logcount.LogCount": None,
        "scrapy.extensions.logstats.LogStats": None,
        "scrapy.extensions.memusage.MemoryUsage": None,
        "scrapy.extensions.throttle.AutoThrottle": None,
        "scrapy.extensions.feedexport.FeedExporter": None,
        "scrapy.extensions.closespider.CloseSpider": None,
    },
    "DOWNLOADER_MIDDLEWARES": {
        _MIDDLEWARE + name: None
        for name in (
            "offsite.OffsiteMiddleware",
            "robotstxt.RobotsTxtMiddleware",
            "httpauth.HttpAuthMiddleware",
            "downloadtimeout.DownloadTimeoutMiddleware",
            "defaultheaders.DefaultHeadersMiddleware",
            "useragent.UserAgentMiddleware",
        )
    },
    "SPIDER_MIDDLEWARES": {
        _SPIDER_MIDDLEWARE + name: None
        for name in (
            "start.StartSpiderMiddleware",
            "referer.RefererMiddleware",
            "urllength.UrlLengthMiddleware",
            "depth.DepthMiddleware",
        )
    },
}


class Rows:
    """The pipeline's end: rows into SQLite, committed together."""

    def __init__(self, path: str) -> None:
        self._conn = sqlite3.connect(path)
        self._conn.execute("create table if not exists found (url, terminal_url, sha1, sha256, md5, size)")
        self._waiting = 0

    @classmethod
    def from_crawler(cls, crawler: Any) -> Rows:
        return cls(crawler.settings["BENCH_PATH"])

    def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        self._conn.execute("insert into found values (?, ?, ?, ?, ?, ?)", [*item.values()])
        self._waiting += 1
        if self._waiting >= COMMIT_ROWS:
            self._conn.commit()
            self._waiting = 0
        return item

    def close_spider(self) -> None:
        self._conn.commit()
        self._conn.close()


class Chains(scrapy.Spider):
    """A landing page, then its PDF."""

    name = "chains"

    async def start(self) -> AsyncIterator[Any]:
        with contextlib.closing(sqlite3.connect(self.settings["BENCH_PATH"])) as conn:
            for (url,) in conn.execute(f"select url from {self.settings['BENCH_TABLE']} order by rowid"):
                yield scrapy.Request(url, cb_kwargs={"row": url}, dont_filter=True)

    def parse(self, response: Any, row: str) -> Iterator[Any]:
        link = response.xpath("//meta[@name='citation_pdf_url']/@content").get()
        yield scrapy.Request(response.urljoin(link), self.keep, cb_kwargs={"row": row}, dont_filter=True)

    def keep(self, response: Any, row: str) -> Iterator[dict[str, Any]]:
        body = response.body
        digests = [hashlib.new(name, body).hexdigest() for name in ("sha1", "sha256", "md5")]
        yield dict(
            zip(
                ("url", "terminal_url", "sha1", "sha256", "md5", "size"),
                (row, response.url, *digests, len(body)),
                strict=True,
            )
        )


def main() -> None:
    path, table, concurrency, form = sys.argv[1:]
    process = CrawlerProcess(
        {
            **POLITENESS_OFF,
            **(TUNED if form == "tuned" else {}),
            "CONCURRENT_REQUESTS": int(concurrency),
            "CONCURRENT_REQUESTS_PER_DOMAIN": int(concurrency),
            "ITEM_PIPELINES": {Rows: 100},
            "BENCH_PATH": path,
            "BENCH_TABLE": table,
        }
    )
    process.crawl(Chains)
    with _crawl_measure.Watch() as watch:
        process.start()
    print(json.dumps(watch.seen()))


if __name__ == "__main__":
    main()
