"""Whatever dies, waits or comes between: every selected row is enriched once, and the counters are the truth."""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from datasette_ingest.jobs import keyset, leases
from datasette_ingest.jobs.model import JobStatus
from datasette_ingest.sqlite import quote, stamp
from datasette_ingest.text import moment

from ..test_keyset import COLLATIONS, NAMES, TYPES, VALUES
from ..world import GAVE_UP, NUMBER, World

pytestmark = pytest.mark.slow

settings.register_profile(
    "ci",
    max_examples=1000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)

TABLES = ["t", "foo/bar", 'q"uote', "per%cent ?", "select", "ü:p0", "semi;colon"]
FILTERS = [
    ("", {}),
    ("({t}.{n} % 3 != 1)", {}),
    ("({t}.{n} > :p0)", {"p0": 4}),
    ("({t}.{n} = :p0 or {t}.{n} > :p1)", {"p0": 2, "p1": 5}),
    ("({t}.{n} < 0)", {}),
    ("({t}.out is null)", {}),
]


@contextlib.contextmanager
def folder() -> Iterator[pathlib.Path]:
    with tempfile.TemporaryDirectory() as name:
        yield pathlib.Path(name)


@st.composite
def tables(draw):
    """(name, SQL, column names, rows): any shape of key, any mixture of values."""
    table = draw(st.sampled_from(TABLES))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique_by=str.lower))
    width = draw(st.integers(0, len(names)))
    columns, keys = [], []
    for number, name in enumerate(names):
        columns.append(f"{quote(name)} {draw(st.sampled_from(TYPES))}{draw(st.sampled_from(COLLATIONS))}")
        if number < width:
            part = f"{draw(st.sampled_from(COLLATIONS))}{draw(st.sampled_from(['', ' desc']))}"
            keys.append(f"{quote(name)}{part}")
    columns += [f"{quote(NUMBER)} integer", "out"]
    if keys:
        columns.append(f"primary key ({', '.join(draw(st.permutations(keys)))})")
    kind = " without rowid" if keys and draw(st.booleans()) else ""
    rows = draw(st.lists(st.tuples(*[VALUES] * len(names)), max_size=12))
    return table, f"create table {quote(table)} ({', '.join(columns)}){kind}", names, rows


def build(path, table, names, sql, rows, refusal):
    """Create the table and its counting trigger; False when SQLite does not take the definition."""
    quoted = quote(table)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("pragma journal_mode = memory")
        conn.execute("pragma synchronous = off")
        try:
            conn.execute(sql)
        except sqlite3.OperationalError:
            return False
        into = ", ".join([*map(quote, names), quote(NUMBER)])
        for number, row in enumerate(rows):
            slots = ", ".join("cast(? as text)" if isinstance(value, keyset.RawText) else "?" for value in row)
            bound = [value.content if isinstance(value, keyset.RawText) else value for value in row]
            with contextlib.suppress(sqlite3.IntegrityError, sqlite3.OperationalError):
                conn.execute(f"insert into {quoted} ({into}) values ({slots}, ?)", [*bound, number])
        conn.execute("create table writes (n)")
        conn.execute(
            f"create trigger counts after update on {quoted} begin insert into writes values (new.{quote(NUMBER)}); end"
        )
        if refusal:
            conn.execute(
                f"create trigger refuses before update on {quoted} when new.{quote(NUMBER)} % 5 = 4 "
                f"begin select raise({refusal}, 'refused'); end"
            )
    return True


STEP = st.one_of(
    st.tuples(st.just("work"), st.integers(0, 2), st.integers(0, 5)),
    st.tuples(st.just("work"), st.integers(0, 2), st.just(99)),
    st.tuples(st.just("killed"), st.integers(0, 2), st.integers(0, 60)),
    st.tuples(st.just("start"), st.booleans(), st.none()),
    st.tuples(st.just("look ahead"), st.integers(0, 2), st.none()),
    st.tuples(st.just("stop"), st.integers(0, 2), st.none()),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 59.0, 61.0, 500.0, -3600.0]), st.none()),
    st.tuples(st.just("pause"), st.sampled_from([None, -5.0, 30.0]), st.none()),
    st.tuples(st.just("resume"), st.none(), st.none()),
)
DEATHS = {"killed", "wait"}


def play(world: World, step) -> None:
    kind, which, how = step
    process = world.processes[which % len(world.processes)] if world.processes and kind in PROCESS_STEPS else None
    if kind == "start" and len(world.processes) < 3:
        world.start(far=which)
    elif kind == "wait":
        world.now += which
    elif kind == "pause":
        world.steer(JobStatus.PAUSED, resume_at=None if which is None else stamp(world.now + which))
    elif kind == "resume":
        world.steer(JobStatus.PENDING)
    elif process is not None:
        PROCESS_STEPS[kind](process, how)


PROCESS_STEPS = {
    "work": lambda process, rows: process.turn(lambda left: min(left, rows)),
    "killed": lambda process, statements: process.turn(dies_after=statements),
    "look ahead": lambda process, _: process.plan is not None and process.read_ahead(),
    "stop": lambda process, _: process.leave(),
}


def check(world: World, selected, expected_errors, *, is_over=True) -> set[int]:
    """Hold the job's books against the table; returns the rows that were given up as deadly."""
    numbers = numbers_by_key(world)
    writes = Counter(n for (n,) in world.ask("select n from writes"))
    errors = [(numbers[key], text) for key, text in world.ask("select row_key, error from _enrichment_errors")]
    failed = {number for number, _ in errors}
    job = world.job()
    assert max(writes.values(), default=1) == 1, f"rows written more than once: {writes}"
    assert len(errors) == len(failed), f"rows recorded as an error more than once: {errors}"
    assert not failed & set(writes)
    assert job.done_count == len(writes) + len(failed)
    assert job.error_count == len(failed)
    words = {"success": len(writes), "error": len(failed)}
    assert job.outcomes == {word: number for word, number in words.items() if number}
    assert world.ask(
        "select coalesce(sum(success_count), 0), coalesce(sum(error_count), 0) from _enrichment_progress"
    ) == [(len(writes), len(failed))]
    assert set(writes) | failed <= selected
    assert not [
        row for row in world.ask("select leased_by, not_before, defer_reason from _enrichment_batches") if all(row)
    ]
    number, table = quote(NUMBER), quote(world.table)
    assert {n for (n,) in world.ask(f"select {number} from {table} where out is {number}")} == set(writes)
    assert world.ask(f"select count(out) from {table}") == [(len(writes),)]
    gave_up = {number for number, text in errors if text.startswith(GAVE_UP)}
    if is_over:
        assert job.status is JobStatus.FINISHED
        assert world.ask("select count(*) from _enrichment_batches") == [(0,)]
        assert set(writes) | failed == selected
        assert failed - gave_up == expected_errors - gave_up
    return gave_up


def numbers_by_key(world: World) -> dict[str, int]:
    page = keyset.page(world.eye, keyset.table_key(world.eye, world.table), [NUMBER], "", {})
    return {keyset.dump(page.key(number)): row[0] for number, row in enumerate(page.rows)}


def selected_by(world: World) -> set[int]:
    where = f" where {world.where}" if world.where else ""
    sql = f"select {quote(NUMBER)} from {quote(world.table)}{where}"
    return {number for (number,) in world.ask(sql, world.params)}


@settings(settings.get_profile("ci"))
@given(
    tables(),
    st.sampled_from(FILTERS),
    st.booleans(),
    st.integers(1, 5),
    st.integers(1, 3),
    st.sampled_from([None, None, "abort", "fail", "rollback"]),
    st.sets(st.integers(0, 11), max_size=2),
    st.one_of(st.just(set()), st.sets(st.integers(0, 11), min_size=1, max_size=2)),
    st.one_of(st.just({}), st.dictionaries(st.integers(0, 11), st.sampled_from([-5.0, 0.0, 20.0, 20.0, 90.0]))),
    st.lists(STEP, max_size=30),
)
def test_every_row_once_under_any_interleaving(
    table, filters, is_free_sql, batch_size, max_open, refusal, failing, deadly, deferring, steps
):
    name, sql, names, rows = table
    with folder() as place:
        path = str(place / "data.db")
        if not build(path, name, names, sql, rows, refusal):
            return
        where = filters[0].format(t=quote(name), n=quote(NUMBER))
        limits = {"batch_size": batch_size, "max_open_batches": max_open, "max_deferred_rows": 4}
        rows_of_note = {"failing": failing, "deadly": deadly, "deferring": deferring}
        with World(path, name, where, filters[1], is_free_sql, **limits, **rows_of_note) as world:
            selected = selected_by(world)
            world.add_job()
            world.start()
            for step in steps:
                play(world, step)
                check(world, selected, set(), is_over=False)
            world.run_to_the_end()
            refused = {number for number in selected if refusal and number % 5 == 4}
            gave_up = check(world, selected, (failing & selected) | refused)
            assert deadly & selected <= gave_up
            if sum(step[0] in DEATHS for step in steps) < leases.EXCLUSIVE_CRASHES_BEFORE_ERROR:
                assert gave_up == deadly & selected, "an innocent row was charged"
            event(f"deadly rows: {len(deadly & selected)}; processes: {min(world.started, 4)}")


def world_of(place, rows, **more) -> World:
    path = str(place / "data.db")
    build(path, "t", ["a"], 'create table t (a, "row number" integer, out)', [(n,) for n in range(rows)], None)
    return World(path, "t", **more)


@pytest.mark.parametrize("batch_size, max_open", list(itertools.product([1, 2, 5], [1, 3])))
@pytest.mark.parametrize("is_free_sql", [False, True])
def test_a_deadly_row_ends_as_one_error_after_three_deaths_alone_and_its_neighbours_are_written(
    tmp_path, batch_size, max_open, is_free_sql
):
    more = {"batch_size": batch_size, "max_open_batches": max_open, "is_free_sql": is_free_sql}
    with world_of(tmp_path, 10, deadly={3}, **more) as world:
        world.add_job()
        world.run_to_the_end()
        assert check(world, set(range(10)), {3}) == {3}
        [(text,)] = world.ask("select error from _enrichment_errors")
        assert text == "This row crashed its worker process 3 times"


def test_while_one_poison_batch_is_at_work_no_other_is_reserved(tmp_path):
    with world_of(tmp_path, 4, batch_size=2) as world:
        world.add_job()
        first = world.start()
        first.turn(lambda left: 0)
        world.eye.execute("update _enrichment_batches set leased_by = null, deaths = 2")
        first.die()
        exclusive = world.start()
        exclusive.turn()  # sees poison batches
        exclusive.turn()  # takes the first
        assert len(exclusive.open) == 1 and exclusive.is_exclusive
        exclusive.turn(lambda left: 1)
        assert world.ask("select count(*) from _enrichment_batches where leased_by is not null") == [(1,)]
        world.run_to_the_end()
        assert check(world, {0, 1, 2, 3}, set()) == set()


@pytest.mark.parametrize("rows_too_late", [1, 2], ids=["a part", "the whole"])
@pytest.mark.parametrize("is_done_by_then", [False, True])
def test_a_frozen_process_writes_nothing_of_what_was_taken_over(tmp_path, rows_too_late, is_done_by_then):
    with world_of(tmp_path, 2, batch_size=2) as world:
        world.add_job()
        frozen, other = world.start(far=True), world.start()
        frozen.turn(lambda left: 0)
        world.now += 61.0
        other.turn()
        assert len(other.open) == 1
        if is_done_by_then:
            other.turn()
        before = world.job(), world.ask("select * from _enrichment_batches"), world.ask("select * from writes")
        frozen.turn(lambda left: rows_too_late)
        assert before == (
            world.job(),
            world.ask("select * from _enrichment_batches"),
            world.ask("select * from writes"),
        )
        assert not frozen.open
        world.run_to_the_end()
        assert check(world, {0, 1}, set()) == set()


def test_a_page_that_was_read_ahead_is_worth_nothing_once_another_process_was_quicker(tmp_path):
    with world_of(tmp_path, 6, batch_size=1, max_open_batches=2, is_free_sql=True) as world:
        world.add_job()
        slow, quick = world.start(), world.start()
        for process in (slow, quick):
            assert process._begin()
            process.read_ahead()
        quick.turn(lambda left: 0)
        slow.turn(lambda left: 0)
        assert (len(quick.open), len(slow.open)) == (2, 0)
        slow.turn(lambda left: 0)
        assert len(slow.open) == 2
        world.run_to_the_end()
        assert check(world, set(range(6)), set()) == set()


@pytest.mark.parametrize("dies_after", range(40))
def test_a_process_that_dies_before_any_statement_of_its_transaction_has_done_nothing(tmp_path, dies_after):
    with world_of(tmp_path, 4, batch_size=2, failing={1}) as world:
        world.add_job()
        process = world.start()
        process.turn(lambda left: 0)
        before = world.ask("select * from _enrichment_batches"), world.ask("select * from _enrichment_jobs")
        process.turn(dies_after=dies_after)
        after = world.ask("select * from _enrichment_batches"), world.ask("select * from _enrichment_jobs")
        if world.job().done_count == 0:
            assert process.owner in world.dead and before == after
        else:
            assert world.job().done_count == 4
        world.run_to_the_end()
        assert check(world, {0, 1, 2, 3}, {1}) == set()


def reservations(world) -> list[tuple]:
    sql = "select row_count, leased_by is not null, not_before, deferrals, ticket from _enrichment_batches order by id"
    return world.ask(sql)


@pytest.mark.parametrize("dies_after", range(60))
def test_a_process_that_dies_while_it_puts_rows_off_has_put_off_none_or_all(tmp_path, dies_after):
    deferring = {1: 20.0, 2: 20.0, 5: 30.0}
    with world_of(tmp_path, 6, batch_size=6, failing={3}, deferring=deferring) as world:
        world.add_job()
        process = world.start()
        process.turn(lambda left: 0)
        before = world.ask("select * from _enrichment_batches"), world.ask("select * from _enrichment_jobs")
        process.turn(dies_after=dies_after)
        if process.owner in world.dead and world.job().done_count == 0:
            assert before == (
                world.ask("select * from _enrichment_batches"),
                world.ask("select * from _enrichment_jobs"),
            )
        else:
            later, last = stamp(world.now + 20.0), stamp(world.now + 30.0)
            assert world.job().done_count == 3
            assert reservations(world) == [
                (1, 0, later, 1, "row 1"),
                (1, 0, later, 1, "row 2"),
                (1, 0, last, 1, "row 5"),
            ]
            assert world.job().waits_until == later
        world.run_to_the_end()
        assert check(world, set(range(6)), {3}) == set()


def test_rows_whose_time_has_come_are_tried_before_new_ones_and_in_the_order_of_their_times(tmp_path):
    with world_of(tmp_path, 8, batch_size=1, max_open_batches=2, deferring={0: 30.0, 1: 10.0, 2: 20.0}) as world:
        world.add_job()
        process = world.start()
        for _ in range(3):
            process.turn()
        assert sorted(number for (number,) in world.ask("select n from writes")) == [3]
        assert len(process.open) == 2
        world.now += 60.0
        process.turn()
        process.turn()
        process.turn()
        assert [number for (number,) in world.ask("select n from writes")] == [3, 4, 5, 1, 2, 0, 6]


def test_a_job_reads_no_further_while_as_many_rows_are_put_off_as_may_be(tmp_path):
    deferring = dict.fromkeys(range(6), 30.0)
    with world_of(tmp_path, 10, batch_size=1, max_open_batches=2, deferring=deferring, max_deferred_rows=4) as world:
        world.add_job()
        process = world.start()
        for _ in range(5):
            process.turn()
        assert len(reservations(world)) == 4 and not process.open
        job = world.job()
        assert (job.status, job.done_count, job.waits_until) == (JobStatus.RUNNING, 0, stamp(world.now + 30.0))
        world.run_to_the_end()
        assert check(world, set(range(10)), set()) == set()


def test_two_processes_share_what_was_put_off(tmp_path):
    with world_of(tmp_path, 6, batch_size=1, max_open_batches=2, deferring=dict.fromkeys(range(6), 30.0)) as world:
        world.add_job()
        one, other = world.start(), world.start(far=True)
        for _ in range(4):
            one.turn()
            other.turn()
        assert world.job().waits_until is not None
        world.now += 31.0
        one.turn()
        other.turn()
        assert (len(one.open), len(other.open)) == (2, 2)
        assert world.job().waits_until is None
        one.die()
        world.run_to_the_end()
        assert check(world, set(range(6)), set()) == set()


def test_what_was_put_off_outlives_a_pause_and_goes_with_a_cancelled_job(tmp_path):
    with world_of(tmp_path, 4, batch_size=1, deferring={0: 500.0, 1: 500.0}) as world:
        world.add_job()
        process = world.start()
        for _ in range(4):
            process.turn()
        held = reservations(world)
        assert len(held) == 2 and world.job().waits_until is not None
        world.steer(JobStatus.PAUSED)
        process.turn(lambda left: 0)
        assert reservations(world) == held and world.job().waits_until is None
        world.steer(JobStatus.PENDING)
        process.turn()
        assert world.job().waits_until is not None and reservations(world) == held
        world.steer(JobStatus.CANCELLED)
        process.turn()
        assert reservations(world) == []


def test_a_long_wait_of_the_whole_job_is_logged_once_and_a_short_one_is_not(tmp_path):
    with world_of(tmp_path, 2, batch_size=1, deferring={0: 20.0, 1: 3600.0}) as world:
        world.add_job()
        process = world.start()
        for _ in range(4):
            process.turn()
        until = world.job().waits_until
        world.now += 21.0
        for _ in range(4):
            process.turn()
        assert world.job().waits_until > until
        for _ in range(3):
            world.now += 3600.0
            process.turn()
        messages = [text for (text,) in world.ask("select message from _enrichment_progress where message is not null")]
        assert [text for text in messages if "wait" in text or "Goes on" in text] == [
            f"All remaining rows wait until {moment(stamp(1_800_000_000.0 + 3600.0))}: not yet",
            "Continues: waiting rows are due",
        ]
        assert world.job().status is JobStatus.FINISHED
