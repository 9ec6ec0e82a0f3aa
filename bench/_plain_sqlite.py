"""The floor: upper-case a column with sqlite3 alone. Keyset pages of two columns, executemany, a commit a page.

Run as a script: `_plain_sqlite.py DB TABLE`. Prints {"seconds"} as JSON.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time

PAGE_ROWS = 1000


def shout(path: str, table: str) -> float:
    """Seconds from the first statement to the last commit."""
    conn = sqlite3.connect(path, isolation_level=None)
    began = time.perf_counter()
    conn.execute(f"alter table {table} add column shouted text")
    after = -1
    while True:
        conn.execute("begin immediate")
        rows = conn.execute(
            f"select id, title from {table} where id > ? order by id limit ?", (after, PAGE_ROWS)
        ).fetchall()
        conn.executemany(f"update {table} set shouted = ? where id = ?", [(title.upper(), key) for key, title in rows])
        conn.execute("commit")
        if len(rows) < PAGE_ROWS:
            break
        after = rows[-1][0]
    seconds = time.perf_counter() - began
    conn.close()
    return seconds


if __name__ == "__main__":
    print(json.dumps({"seconds": shout(sys.argv[1], sys.argv[2])}))
