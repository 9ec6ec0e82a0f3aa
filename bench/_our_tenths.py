"""A job of ours by tenth of its table: steps of SQLite's virtual machine a row, and milliseconds a row.

Steps do not depend on the machine, and grow with every row that a statement looks at: paging that slows down shows in
them alone. Python cannot read sqlite3_stmt_status, so a progress handler on every connection counts in units of UNIT
steps of a statement. Where Datasette puts its own handler on a read connection, that one is not counted; the engine
reads its pages in its write call.

Run as a script in an environment that has this project: `_our_tenths.py DB TABLE`.
Prints {"rows", "steps", "milliseconds"} as JSON, the last two a list of ten: of a row.
"""

from __future__ import annotations

import asyncio
import functools
import json
import pathlib
import sqlite3
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

UNIT = 500
TENTHS = 10


class Counted(sqlite3.Connection):
    """A connection that adds its steps to `units`."""

    units = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.set_progress_handler(_count, UNIT)


def _count() -> int:
    Counted.units += 1
    return 0


@dataclass(frozen=True)
class Sample:
    """Where the job stood after one of its transactions."""

    rows: int
    steps: float
    milliseconds: float

    @classmethod
    def now(cls, rows: int) -> Sample:
        return cls(rows, Counted.units * UNIT, 1000 * time.perf_counter())


async def run(path: pathlib.Path, table: str) -> list[Sample]:
    import datasette.app  # noqa: F401 - first: it loads the plugins, which must not be half-imported by then
    from bench_shout import SLUG

    from datasette_ingest import compat, settings
    from datasette_ingest.jobs.engine import server
    from datasette_ingest.jobs.engine.worker import Worker
    from datasette_ingest.jobs.model import StartRequest
    from datasette_ingest.jobs.service import control
    from datasette_ingest.jobs.service.permissions import ROOT

    instance = compat.open_datasette([str(path)], with_root=True)
    await instance.invoke_startup()
    job = await control.start(instance, path.stem, StartRequest(table, enrichment=SLUG, actor=ROOT))
    samples = [Sample.now(0)]
    worker = Worker(
        instance,
        databases=[path.stem],
        only=(path.stem, job.id),
        on_update=lambda job: samples.append(Sample.now(job.done_count)),
        timing=server.timing(settings.load({})),
    )
    await worker.run_until_idle()
    compat.close(instance)
    return samples


def at(samples: list[Sample], rows: float) -> tuple[float, float]:
    """(steps, milliseconds) when that many rows were done, on the line between the two samples around it."""
    before = samples[0]
    for sample in samples:
        if sample.rows >= rows:
            span = sample.rows - before.rows
            share = (rows - before.rows) / span if span else 1.0
            return (
                before.steps + (sample.steps - before.steps) * share,
                before.milliseconds + (sample.milliseconds - before.milliseconds) * share,
            )
        before = sample
    return before.steps, before.milliseconds


def main(path: pathlib.Path, table: str) -> dict[str, Any]:
    sqlite3.connect = functools.partial(sqlite3.connect, factory=Counted)  # type: ignore[assignment]
    samples = asyncio.run(run(path, table))
    rows = samples[-1].rows
    marks = [(samples[0].steps, samples[0].milliseconds)]
    marks += [at(samples, rows * tenth / TENTHS) for tenth in range(1, TENTHS + 1)]
    tenth = rows / TENTHS
    return {
        "rows": rows,
        "steps": [(after[0] - before[0]) / tenth for before, after in pairwise(marks)],
        "milliseconds": [(after[1] - before[1]) / tenth for before, after in pairwise(marks)],
    }


if __name__ == "__main__":
    print(json.dumps(main(pathlib.Path(sys.argv[1]), sys.argv[2])))
