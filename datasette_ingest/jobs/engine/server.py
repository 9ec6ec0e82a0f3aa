"""Jobs inside a server: a worker on an event loop and a thread of its own, started and stopped with the server.

Enrichments never run on the loop that serves pages, so one that blocks cannot stall them. Before each transaction the
worker waits for the requests in flight.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from ... import compat, settings
from .. import events, owner
from .runner import Timing
from .worker import Worker

log = logging.getLogger(__name__)

STEP_SECONDS = 0.001
_WORKERS: weakref.WeakKeyDictionary[Any, ServerWorker] = weakref.WeakKeyDictionary()

Application = Callable[[Any, Any, Any], Awaitable[None]]
T = TypeVar("T")


def timing(configured: settings.Settings) -> Timing:
    """The engine's clocks and limits as configured."""
    return Timing(
        lease_seconds=configured.lease_seconds,
        batch_seconds=configured.batch_seconds,
        liveness=owner.liveness,
        max_running_jobs=configured.max_running_jobs,
    )


class ServerWorker:
    """The worker of one server. `in_flight` counts the requests that are being answered."""

    def __init__(self, datasette: Any, configured: settings.Settings) -> None:
        self.in_flight = 0
        self._datasette = datasette
        self._yield_seconds = configured.yield_ms / 1000
        self._run_jobs = configured.run_jobs
        self._timing = timing(configured)
        self._worker: Worker | None = None
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Begin to run jobs, if the configuration leaves them to the server."""
        events.emit_on(self._datasette, asyncio.get_running_loop())
        if not self._run_jobs or self._worker is not None:
            return
        self._worker = Worker(self._datasette, timing=self._timing, yield_to_requests=self.yield_to_requests)
        if getattr(self._datasette, "executor", None) is None:  # --setting num_sql_threads 0: one thread does all
            self._task = asyncio.create_task(self._worker.run_forever())
            return
        self._thread = threading.Thread(target=self._run, name="ingest-jobs", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Commit what is finished, give back the rest, end."""
        if self._worker is None:
            return
        self._worker.stop()
        if self._task is not None:
            await self._task
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, 10)
            if self._thread.is_alive():
                log.warning("a job did not stop in 10 s; its rows run again when the server starts")

    def wake(self) -> None:
        if self._worker is not None:
            self._worker.wake()

    def _run(self) -> None:
        assert self._worker is not None
        try:
            asyncio.run(self._work())
        except Exception:
            log.exception("the jobs' worker stopped on a fault; restart the server to run jobs again")

    async def _work(self) -> None:
        assert self._worker is not None
        self.loop = asyncio.get_running_loop()
        try:
            await self._worker.run_forever()
        finally:
            self.loop = None

    async def yield_to_requests(self) -> None:
        """Wait while pages are being answered, `yield_ms` at the longest."""
        until = time.monotonic() + self._yield_seconds
        while self.in_flight and time.monotonic() < until:  # noqa: ASYNC110 - an event would be set on another loop
            await asyncio.sleep(STEP_SECONDS)


def wrap(datasette: Any, app: Application) -> Application:
    """An ASGI application that starts and stops the worker with the server and counts requests."""
    server_worker = ServerWorker(datasette, settings.load(compat.plugin_config(datasette)))

    async def with_jobs(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await app(scope, _watched(datasette, receive, server_worker), send)
            return
        server_worker.in_flight += 1
        try:
            await app(scope, receive, send)
        finally:
            server_worker.in_flight -= 1

    return with_jobs


def _watched(datasette: Any, receive: Any, server_worker: ServerWorker) -> Any:
    async def receive_and_act() -> Any:
        message = await receive()
        if message["type"] == "lifespan.startup":
            # not before: Datasette makes an application for each internal request, too
            compat.remember_files(datasette)
            _WORKERS[datasette] = server_worker
            server_worker.start()
        elif message["type"] == "lifespan.shutdown":
            await server_worker.stop()
        return message

    return receive_and_act


def wake(datasette: Any) -> None:
    """Tell this server's worker, if it has one, that a job was added or changed."""
    server_worker = _WORKERS.get(datasette)
    if server_worker is not None:
        server_worker.wake()


async def run_in_worker_loop(datasette: Any, make: Callable[[], Coroutine[Any, Any, T]], *, seconds: float) -> T:
    """Run a coroutine on the event loop of this server's jobs and return its result. Blocking code there cannot stall
    pages.

    Without a worker it runs in a thread with an event loop of its own, one coroutine at a time. It is cancelled with its
    caller.

    :raises asyncio.TimeoutError: when it takes longer than `seconds`
    """
    if getattr(datasette, "executor", None) is None:
        return await asyncio.wait_for(make(), seconds)
    server_worker = _WORKERS.get(datasette)
    loop = server_worker.loop if server_worker is not None else None
    future = asyncio.run_coroutine_threadsafe(make(), loop) if loop is not None else _in_a_thread(make, seconds)
    return await asyncio.wait_for(asyncio.wrap_future(future), seconds)


_ONE_AT_A_TIME = threading.Lock()
"""What enrichments keep between calls belongs to one event loop."""


def _in_a_thread(make: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> concurrent.futures.Future[T]:
    """:param seconds: how long it waits for the coroutine before it, which may never end"""
    promised: concurrent.futures.Future[T] = concurrent.futures.Future()

    async def main() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def over(future: concurrent.futures.Future[T]) -> None:
            if future.cancelled():
                with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                    loop.call_soon_threadsafe(task.cancel)

        promised.add_done_callback(over)
        return await make()

    def run() -> None:
        if not _ONE_AT_A_TIME.acquire(timeout=seconds):
            promised.cancel()
            return
        with contextlib.ExitStack() as held:
            held.callback(_ONE_AT_A_TIME.release)
            held.enter_context(contextlib.suppress(concurrent.futures.InvalidStateError))  # cancelled meanwhile
            if promised.cancelled():
                return
            try:
                result = asyncio.run(main())
            except BaseException as problem:  # noqa: BLE001 - handed to whoever waits for it
                promised.set_exception(problem)
            else:
                promised.set_result(result)

    threading.Thread(target=run, name="ingest-dry-run", daemon=True).start()
    return promised
