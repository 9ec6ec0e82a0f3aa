"""Runs datasette-enrichments' own job without a browser: its enqueue, its background task, inside a Datasette instance.

Run as a script in an environment that has it: `_peer_job.py DB TABLE SECONDS`. The job is stopped by its own cancel
when it has not finished after SECONDS. Prints {"seconds", "rows", "status"} as JSON.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import asyncio
import json
import pathlib
import sys
import time
from typing import Any


async def shout(path: pathlib.Path, table: str, limit: float) -> dict[str, Any]:
    from datasette.app import Datasette  # noqa: I001 - first: it loads the plugins, which must not be half-imported by then
    from bench_shout import SLUG
    from datasette_enrichments import get_enrichments
    from datasette_enrichments.utils import wait_for_job
    from datasette_enrichments.views import cancel_job

    datasette = Datasette([str(path)])
    await datasette.invoke_startup()
    db = datasette.get_database(path.stem)
    enrichment = (await get_enrichments(datasette))[SLUG]
    began = time.perf_counter()
    await enrichment.initialize(db, table)
    job_id = await enrichment.enqueue(datasette, db, table, "", {})
    try:
        await wait_for_job(datasette, job_id, database=db.name, timeout=limit)
    except asyncio.TimeoutError:
        await cancel_job(db, job_id, "")
    seconds = time.perf_counter() - began
    row = (await db.execute("select done_count, status from _enrichment_jobs where id = ?", [job_id])).first()
    return {"seconds": seconds, "rows": row["done_count"], "status": row["status"]}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(shout(pathlib.Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])))), flush=True)
