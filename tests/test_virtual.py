"""The virtual clock that other tests rely on: it jumps when nothing else happens, and only then."""

from __future__ import annotations

import asyncio
import time

from datasette_ingest import compat

from . import virtual
from .conftest import serving


def test_timers_come_in_their_order_and_hours_pass_at_once():
    async def main(clock):
        seen = []

        async def after(seconds):
            await asyncio.sleep(seconds)
            seen.append((seconds, clock.elapsed))

        await asyncio.gather(*(after(seconds) for seconds in (7200, 0.5, 3600)))
        return seen, clock() - clock.began

    assert virtual.run(main) == ([(0.5, 0.5), (3600, 3600.0), (7200, 7200.0)], 7200.0)


def test_while_a_thread_or_a_database_is_at_work_time_stands_still(db_path):
    async def main(clock):
        late = asyncio.create_task(asyncio.sleep(0.001))
        await asyncio.to_thread(time.sleep, 0.05)
        async with serving(db_path) as datasette:
            db = datasette.get_database("data")
            for call in (compat.read, compat.write):
                await asyncio.wait_for(call(db, lambda conn: time.sleep(0.05)), 0.01)
        return late.done(), clock.elapsed

    assert virtual.run(main) == (False, 0.0)


def test_what_a_socket_is_sent_comes_before_the_next_timer():
    async def main(clock):
        async def echo(reader, writer):
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"hello\n")
            said = await asyncio.wait_for(reader.readline(), 0.001)
            writer.close()
        return said

    assert virtual.run(main) == b"hello\n"


def test_an_error_of_the_main_coroutine_is_raised_and_the_loop_is_closed():
    async def main(clock):
        raise LookupError("as it is")

    try:
        virtual.run(main)
    except LookupError as problem:
        assert str(problem) == "as it is"
    else:
        raise AssertionError("it was not raised")
