"""A small world for the engine's transactions: a virtual clock, processes that die between two statements, hosts that
cannot see each other. Nothing here runs in real time or in a second process."""

from __future__ import annotations

import contextlib
import math
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from datasette_ingest.jobs import keyset, store
from datasette_ingest.jobs.engine import cycle
from datasette_ingest.jobs.engine.cycle import Cycle, FinishedRows, Plan, ReadAhead, Reservation, SchemaMoved
from datasette_ingest.jobs.engine.output import RowTarget
from datasette_ingest.jobs.engine.results import RolledBack
from datasette_ingest.jobs.model import BatchResult, Decision, Deferral, Job, JobStatus, RowFailure, StartRequest
from datasette_ingest.jobs.owner import Liveness
from datasette_ingest.sqlite import from_iso, quote, stamp

LEASE_SECONDS = 60.0
NUMBER = "row number"
"""The column by which the world tells the rows apart, whatever their key."""
GAVE_UP = "This row crashed its worker process"


class Killed(BaseException):
    """The process is gone: no handler of the engine's may see an ordinary exception."""


class Mortal(sqlite3.Connection):
    """A connection whose process dies before its statement number `left`."""

    left: float = math.inf

    def step(self) -> None:
        if self.left <= 0:
            raise Killed
        self.left -= 1

    def cursor(self, *args: Any) -> Any:
        return super().cursor(MortalCursor)

    def execute(self, sql: str, *args: Any) -> Any:
        return self.cursor().execute(sql, *args)

    def executemany(self, sql: str, rows: Iterable[Any]) -> Any:
        return self.cursor().executemany(sql, rows)


class MortalCursor(sqlite3.Cursor):
    def execute(self, sql: str, *args: Any) -> Any:
        self.connection.step()  # type: ignore[attr-defined]
        return super().execute(sql, *args)

    def executemany(self, sql: str, rows: Iterable[Any]) -> Any:
        return super().executemany(sql, self._one_by_one(rows))

    def _one_by_one(self, rows: Iterable[Any]) -> Iterator[Any]:
        for row in rows:
            self.connection.step()  # type: ignore[attr-defined]
            yield row


@dataclass
class World:
    """One database file, one job over one table, and the processes that work on it.

    `failing` rows raise in the enrichment; `deadly` ones end the process that comes to them; `deferring` ones are put off
    at their first try, for so many seconds. `dead` holds owners.
    """

    path: str
    table: str
    where: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    is_free_sql: bool = False
    batch_size: int = 2
    max_open_batches: int = 2
    max_errors: int | None = None
    failing: Collection[int] = ()
    deadly: Collection[int] = ()
    deferring: Mapping[int, float] = field(default_factory=dict)
    max_deferred_rows: int = 1000
    now: float = 1_800_000_000.0
    dead: set[str] = field(default_factory=set)
    processes: list[Process] = field(default_factory=list)
    started: int = 0

    def __post_init__(self) -> None:
        self.eye = self.connect()

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        for process in list(self.processes):
            process.end()
        self.eye.close()

    def connect(self) -> Mortal:
        conn = sqlite3.connect(self.path, isolation_level=None, factory=Mortal, timeout=0)
        sqlite3.Connection.execute(conn, "pragma journal_mode = memory")
        sqlite3.Connection.execute(conn, "pragma synchronous = off")
        return conn

    def liveness(self, owner: str) -> Liveness:
        if owner.startswith("far"):
            return Liveness.UNKNOWN
        return Liveness.GONE if owner in self.dead else Liveness.ALIVE

    def add_job(self) -> None:
        count = f"select count(*) from {quote(self.table)}" + (f" where {self.where}" if self.where else "")
        with transaction(self.eye):
            rows = self.eye.execute(count, self.params).fetchone()[0]
            store.insert_job(self.eye, "d", StartRequest(self.table, "e"), selection="{}", row_count=rows, now=self.now)

    def start(self, *, far: bool = False) -> Process:
        self.started += 1
        process = Process(self, f"{'far' if far else 'near'}:{self.started}", self.connect())
        self.processes.append(process)
        return process

    def ask(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        return self.eye.execute(sql, *args).fetchall()  # type: ignore[no-any-return]

    def steer(self, status: JobStatus, *, resume_at: str | None = None) -> bool:
        """What a person does from outside any worker."""
        expected = {
            JobStatus.PAUSED: [JobStatus.PENDING, JobStatus.RUNNING],
            JobStatus.PENDING: [JobStatus.PAUSED],
            JobStatus.CANCELLED: [JobStatus.PENDING, JobStatus.RUNNING, JobStatus.PAUSED],
        }[status]
        with transaction(self.eye):
            return store.change_status(self.eye, 1, expected, Decision(status, resume_at=resume_at), now=self.now)

    def job(self) -> Job:
        return store.get_job(self.eye, 1)

    def run_to_the_end(self, *, tries: int = 400) -> Job:
        """Let every living process work, and new ones take the place of the dead, until the job is over."""
        self.steer(JobStatus.PENDING)
        for _ in range(tries):
            if self.job().status.is_final:
                break
            if not self.processes:
                self.start()
            for process in list(self.processes):
                process.turn()
            due = self.job().waits_until  # far ahead where the clock was set back
            self.now = max(self.now + 5.0, from_iso(due) if due else 0.0)
        for process in list(self.processes):
            process.turn()
            if process in self.processes:
                process.leave()
        return self.job()


@contextlib.contextmanager
def transaction(conn: sqlite3.Connection) -> Iterator[None]:
    """As compat.write does it; a process that is killed leaves the rollback to SQLite."""
    conn.execute("begin immediate")
    try:
        yield
    except Exception:
        if conn.in_transaction:
            conn.execute("rollback")
        raise
    conn.execute("commit")


@dataclass
class Held:
    """An open batch of a process: its rows once they are read, and how many of them are committed."""

    reservation: Reservation
    flushed: int = 0


@dataclass
class Process:
    """What a runner is, without an event loop: the plan, the open batches, and what the last transaction told it."""

    world: World
    owner: str
    conn: Mortal
    plan: Plan | None = None
    open: dict[int, Held] = field(default_factory=dict)
    poison_batches: int = 0
    is_exclusive: bool = False
    ahead: ReadAhead | None = None

    # ---- dying, leaving ----

    def die(self) -> None:
        self.world.dead.add(self.owner)
        self.end()

    def end(self) -> None:
        self.world.processes.remove(self)
        self.conn.left = math.inf
        self.conn.close()

    def leave(self) -> None:
        """Stop cleanly: nothing of it is a death."""
        if self.plan is not None:
            self.cycle([], want=0, is_leaving=True)
        if self in self.world.processes:
            self.end()
            self.world.dead.add(self.owner)

    # ---- working ----

    def turn(self, how_far: Callable[[int], int] = lambda rows: rows, *, dies_after: float = math.inf) -> None:
        """One round of a runner: answer rows of every open batch, one transaction, look whether all is done.

        :param how_far: rows of a batch -> how many of them are answered now
        :param dies_after: statements until the process is killed
        """
        self.conn.left = dies_after
        try:
            if self.plan is None and not self._begin():
                return
            step = self.cycle(self._finished_rows(how_far))
            nothing_held = not self.open and not step.open_elsewhere + step.poison_batches and step.next_due is None
            if step.is_exhausted and nothing_held:
                with transaction(self.conn):
                    cycle.finish(self.conn, self._need_plan(), self.world.now)
        except Killed:
            self.die()
        else:
            self.conn.left = math.inf

    def _begin(self) -> bool:
        now = self.world.now
        startable = [JobStatus.PENDING, JobStatus.RUNNING]
        with transaction(self.conn):
            if not store.change_status(self.conn, 1, startable, Decision(JobStatus.RUNNING), now=now) and not (
                store.resume_if_due(self.conn, 1, now)
            ):
                return False
        self._make_plan()
        return True

    def _need_plan(self) -> Plan:
        assert self.plan is not None
        return self.plan

    def _make_plan(self) -> None:
        world, key = self.world, keyset.table_key(self.conn, self.world.table)
        self.plan = Plan(
            job_id=1,
            key=key,
            columns=(NUMBER,),
            where=world.where,
            params=dict(world.params),
            is_free_sql=world.is_free_sql,
            batch_size=world.batch_size,
            max_open_batches=world.max_open_batches,
            max_errors=world.max_errors,
            target=RowTarget(key),
            owner=self.owner,
            lease_seconds=LEASE_SECONDS,
            liveness=world.liveness,
            schema_version=cycle.schema_version(self.conn),
            max_deferred_rows=world.max_deferred_rows,
        )

    def _finished_rows(self, how_far: Callable[[int], int]) -> list[FinishedRows]:
        """The enrichment's work: raises Killed where a deadly row's turn comes."""
        done = []
        for held in self.open.values():
            if held.reservation.page.width == cycle.UNREAD.width:
                held.reservation = Reservation(
                    held.reservation.batch, cycle.read_rows(self.conn, self._need_plan(), held.reservation.batch)
                )
            page = held.reservation.page
            stop = held.flushed + max(0, min(len(page) - held.flushed, how_far(len(page) - held.flushed)))
            is_whole = stop == len(page)
            if stop == held.flushed and not is_whole:
                continue
            done.append(
                FinishedRows(held.reservation.batch, page.slice(held.flushed, stop), self._result(held, stop), is_whole)
            )
            held.flushed = stop
        return done

    def _result(self, held: Held, stop: int) -> BatchResult:
        answer = BatchResult(stop - held.flushed)
        for number, row in enumerate(held.reservation.page.rows[held.flushed : stop]):
            if row[0] in self.world.deadly:
                raise Killed
            if row[0] in self.world.deferring and not held.reservation.batch.deferrals:
                until = stamp(self.world.now + self.world.deferring[row[0]])
                answer.deferred[number] = Deferral(until, "not yet", ticket=f"row {row[0]}")
                answer.updates.append(None)
                continue
            if row[0] in self.world.failing:
                answer.errors[number] = RowFailure("it raised")
            answer.updates.append(None if row[0] in self.world.failing else {"out": row[0]})
        return answer

    # ---- the transaction ----

    def read_ahead(self) -> None:
        """Read the next page outside; whatever happens until the transaction may make it stale."""
        job = store.get_job(self.conn, 1)
        plan = self._need_plan()
        self.ahead = cycle.read_ahead(self.conn, plan, job.next_cursor, plan.max_open_batches * plan.batch_size)

    def cycle(self, done: list[FinishedRows], *, want: int | None = None, is_leaving: bool = False) -> Cycle:
        takes_poison = not self.open and self.poison_batches > 0
        exclusive = takes_poison or self.is_exclusive
        if want is None:
            room = self._need_plan().max_open_batches - len(self.open) + sum(item.is_whole for item in done)
            want = int(takes_poison) if exclusive else max(0, room)
        while True:
            plan, peeked = self._need_plan(), None
            if plan.is_free_sql and want:
                if exclusive:
                    peeked = cycle.peek_poison(self.conn, plan, self.world.now)
                elif self.ahead is None:
                    self.read_ahead()
            try:
                with transaction(self.conn):
                    step = cycle.run_cycle(
                        self.conn,
                        plan,
                        done,
                        want=want,
                        now=self.world.now,
                        exclusive=exclusive,
                        outside=peeked if exclusive else self.ahead,
                        is_leaving=is_leaving,
                    )
                break
            except SchemaMoved:
                self._make_plan()
            except RolledBack as refusal:
                cycle.blame(done, refusal)
        self.ahead = None
        for item in done:
            if item.is_whole:
                self.open.pop(item.batch.id, None)
        for batch_id in step.lost:
            self.open.pop(batch_id, None)
        if not (
            exclusive and not takes_poison
        ):  # as the runner, which launches nothing while a poison batch is at work
            self.open |= {item.batch.id: Held(item) for item in step.opened}
        self.poison_batches = step.poison_batches
        self.is_exclusive = exclusive and bool(self.open)
        if step.job.status is not JobStatus.RUNNING:
            self.plan, self.open, self.poison_batches, self.is_exclusive = None, {}, 0, False
        return step
