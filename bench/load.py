"""Load against sqlite-utils: records of Unpaywall into ingest_request.

    python bench/load.py [--quick] [--json] [--lines N]

A dump of Unpaywall-shaped records (2.4 KB each, 1.1 locations on average, no compression) is loaded into a new database,
then again into the same one, by `datasette ingest load`. The peer is `sqlite-utils insert --ignore` of the rows that the
load made, already flat, into a table with the same key. Each runs in a process of its own, in turn; figures are medians. What
a process takes to start, measured with one line, is left out of seconds and shown beside them. `rows_s` is for each second of
processor time: of one core, whatever else the machine does.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
KEY = ("ingest_type", "base_url", "source", "source_id")
TEMPLATES = 2_000
"""Different records; each is used again with other identifiers."""
WORDS = [
    "analysis",
    "river",
    "basin",
    "sediment",
    "transport",
    "model",
    "climate",
    "effects",
    "protein",
    "folding",
    "liver",
    "cells",
    "lattice",
    "regional",
]


@dataclass(frozen=True)
class Usage:
    """What a process took: seconds by the clock and of the processor, and its most memory in MB."""

    seconds: float
    cpu: float
    peak_mb: float
    output: str

    def without(self, start: Usage) -> Usage:
        least = 1e-3
        return Usage(
            max(self.seconds - start.seconds, least), max(self.cpu - start.cpu, least), self.peak_mb, self.output
        )


def record(rng: random.Random) -> str:
    """A record in which `@N@` stands where its number comes."""
    places = []
    count = rng.choices([0, 1, 2, 3], [30, 40, 20, 10])[0]
    for number in range(count):
        host = f"repository{rng.randrange(3000)}.example.edu"
        landing = f"https://{host}/handle/{rng.randrange(10**7)}/@N@"
        pdf = f"https://{host}/bitstream/{rng.randrange(10**7)}/@N@/article.pdf" if rng.random() < 0.6 else None
        places.append(
            {
                "updated": "2023-07-20T11:51:24.138246",
                "url": pdf or landing,
                "url_for_pdf": pdf,
                "url_for_landing_page": landing,
                "evidence": "oa repository (via OAI-PMH title and first author match)",
                "license": rng.choice(["cc-by", "cc-by-nc", None]),
                "version": rng.choice(["publishedVersion", "acceptedVersion", "submittedVersion"]),
                "host_type": rng.choice(["publisher", "repository"]),
                "is_best": number == count - 1,
                "pmh_id": f"oai:{host}:@N@",
                "endpoint_id": f"{rng.randrange(16**20):020x}",
                "repository_institution": "University of Somewhere - Institutional Repository",
                "oa_date": "2019-05-03",
            }
        )
    doi = f"10.{rng.randrange(1000, 9999)}/j.{''.join(rng.choices('abcdefgh', k=4))}.@N@"
    authors = [
        {"given": rng.choice(WORDS).title(), "family": rng.choice(WORDS).title(), "sequence": "additional"}
        for _ in range(rng.randrange(1, 6))
    ]
    return json.dumps(
        {
            "doi": doi,
            "doi_url": f"https://doi.org/{doi}",
            "title": " ".join(rng.choices(WORDS, k=12)),
            "genre": "journal-article",
            "is_paratext": False,
            "published_date": "2019-05-03",
            "year": 2019,
            "journal_name": " ".join(rng.choices(WORDS, k=4)).title(),
            "journal_issns": "1234-5678,2345-6789",
            "journal_issn_l": "1234-5678",
            "journal_is_oa": False,
            "journal_is_in_doaj": False,
            "publisher": "A Publisher",
            "is_oa": bool(places),
            "oa_status": "green" if places else "closed",
            "has_repository_copy": bool(places),
            "best_oa_location": places[-1] if places else None,
            "first_oa_location": places[0] if places else None,
            "oa_locations": places,
            "oa_locations_embargoed": [],
            "updated": "2023-07-21T11:51:24.138246",
            "data_standard": 2,
            "z_authors": authors,
        }
    )


def make_dump(path: pathlib.Path, lines: int) -> None:
    rng = random.Random(7)
    pieces = [record(rng).split("@N@") for _ in range(min(TEMPLATES, lines))]
    with path.open("w", encoding="utf-8") as file:
        for number in range(lines):
            file.write(str(number).join(rng.choice(pieces)) + "\n")


def measured(command: Sequence[str]) -> Usage:
    """Run a command to its end.

    :raises SystemExit: when it fails
    """
    with tempfile.TemporaryFile() as output:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, env=environment())
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.stderr is not None
        errors = process.stderr.read()
        output.seek(0)
        text = output.read().decode()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}: {errors.decode()}")
    scale = 1 if sys.platform == "darwin" else 1024
    return Usage(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * scale / 1e6, text)


def environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def load(db: pathlib.Path, dump: pathlib.Path) -> Usage:
    command = ["-m", "datasette", "ingest", "load", str(db), str(dump), "--format", "unpaywall", "--json"]
    return measured([sys.executable, *command])


def insert(db: pathlib.Path, rows: pathlib.Path) -> Usage:
    keys = [word for column in KEY for word in ("--pk", column)]
    command = ["-m", "sqlite_utils", "insert", str(db), "ingest_request", str(rows), "--nl", "--ignore", *keys]
    return measured([sys.executable, *command])


def export(db: pathlib.Path, path: pathlib.Path) -> int:
    """The rows of the table as JSON lines, in the order of the dump; how many."""
    with contextlib.closing(sqlite3.connect(db)) as conn, path.open("w", encoding="utf-8") as file:
        conn.row_factory = sqlite3.Row
        number = 0
        for row in conn.execute("select * from ingest_request order by source_id"):
            file.write(json.dumps(dict(row)) + "\n")
            number += 1
    return number


def rounds(folder: pathlib.Path, dump: pathlib.Path, repeats: int) -> Iterator[tuple[int, Usage, Usage, Usage]]:
    """(requests, first load, second load, sqlite-utils), each without the start of its process."""
    (one := folder / "one.jsonl").write_bytes(dump.open("rb").readline())
    flat = folder / "rows.jsonl"
    (folder / "one-row.jsonl").write_text('{"ingest_type": "pdf", "base_url": "x", "source": "x", "source_id": "x"}\n')
    start = load(folder / "one.db", one)
    peer_start = insert(folder / "peer-one.db", folder / "one-row.jsonl")
    print(f"start of a process: {start.seconds:.2f} s, of sqlite-utils {peer_start.seconds:.2f} s", file=sys.stderr)
    for number in range(repeats):
        db, peer_db = folder / f"{number}.db", folder / f"peer-{number}.db"
        first = load(db, dump)
        second = load(db, dump)
        new, known = json.loads(first.output)["new"], json.loads(second.output)["known"]
        assert new == known == export(db, flat), "the two loads do not agree"
        peer = insert(peer_db, flat)
        with contextlib.closing(sqlite3.connect(peer_db)) as conn:
            assert conn.execute("select count(*) from ingest_request").fetchone()[0] == new
        db.unlink()
        peer_db.unlink()
        print(
            f"load averages {os.getloadavg()}: first {first.seconds:.1f} s (processor {first.cpu:.1f}), second "
            f"{second.seconds:.1f} s ({second.cpu:.1f}), sqlite-utils {peer.seconds:.1f} s ({peer.cpu:.1f})",
            file=sys.stderr,
        )
        yield new, first.without(start), second.without(start), peer.without(peer_start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100,000 lines instead of 1,000,000")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--lines", type=int, help="lines of the dump")
    chosen = parser.parse_args()
    lines = chosen.lines or (100_000 if chosen.quick else 1_000_000)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        make_dump(dump := folder / "dump.jsonl", lines)
        size = dump.stat().st_size / lines
        found = list(rounds(folder, dump, 3))
    new = found[0][0]

    def median(values: Iterator[float]) -> float:
        return statistics.median(values)

    keys = {
        "rows_s": round(median(new / first.cpu for _, first, _, _ in found)),
        "rows_clock_s": round(median(new / first.seconds for _, first, _, _ in found)),
        "peak_mb": round(max(usage.peak_mb for _, first, second, _ in found for usage in (first, second)), 1),
        "second_run_ratio": round(median(first.cpu / second.cpu for _, first, second, _ in found), 2),
        "second_run_clock_ratio": round(median(first.seconds / second.seconds for _, first, second, _ in found), 2),
        "ratio_sqlite_utils": round(median(peer.cpu / first.cpu for _, first, _, peer in found), 2),
    }
    print(f"{lines:,} lines of {size:,.0f} bytes on average, {new:,} requests")
    print(f"first load      {keys['rows_s']:>10,} requests/s of processor time, {keys['rows_clock_s']:,} by the clock")
    print(
        f"second load     {keys['second_run_ratio']:>10} times as fast ({keys['second_run_clock_ratio']} by the clock)"
    )
    print(f"sqlite-utils    {keys['ratio_sqlite_utils']:>10} times the processor time of the first load")
    print(f"most memory     {keys['peak_mb']:>10} MB")
    if chosen.json:
        print(json.dumps(keys))


if __name__ == "__main__":
    main()
