"""Whether the process behind a lease still lives, and when nothing can be said."""

from __future__ import annotations

import subprocess
import sys

import pytest

from datasette_ingest.jobs import owner
from datasette_ingest.jobs.owner import Liveness, liveness, new_owner, retire

ASK = "from datasette_ingest.jobs.owner import new_owner; print(new_owner(), flush=True); input()"


def test_an_owner_of_this_process_lives_until_it_is_retired():
    mine = new_owner()
    assert liveness(mine) is Liveness.ALIVE
    retire(mine)
    assert liveness(mine) is Liveness.GONE


def test_two_owners_of_one_process_are_told_apart():
    one, other = new_owner(), new_owner()
    retire(one)
    assert (one != other, liveness(one), liveness(other)) == (True, Liveness.GONE, Liveness.ALIVE)


def test_another_process_lives_until_it_is_killed_and_before_its_parent_has_looked():
    with subprocess.Popen(
        [sys.executable, "-c", ASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        theirs = child.stdout.readline().strip()
        assert liveness(theirs) is Liveness.ALIVE
        child.kill()
        child.stdout.read()  # ends when the process does; nobody has waited for it yet
        while liveness(theirs) is Liveness.ALIVE:
            pass
        assert liveness(theirs) is Liveness.GONE
    assert liveness(theirs) is Liveness.GONE


def changed(**parts):
    names = ("host", "boot", "pid", "start", "token")
    return ":".join(parts.get(name, value) for name, value in zip(names, new_owner().split(":"), strict=True))


def test_a_process_number_that_was_given_to_another_process_is_not_the_owner():
    assert liveness(changed(start="1")) is Liveness.GONE


def test_a_process_of_an_earlier_boot_is_gone():
    assert liveness(changed(boot="an-earlier-one")) is Liveness.GONE


def test_of_another_host_nothing_can_be_said():
    assert liveness(changed(host="elsewhere")) is Liveness.UNKNOWN
    assert liveness(changed(host=owner._here()[0] + "0")) is Liveness.UNKNOWN


@pytest.mark.parametrize("text", ["", "x", "a:b:c", "a:b:c:d:e:f", ":::::", "::::"])
def test_of_what_is_no_owner_nothing_can_be_said(text):
    assert liveness(text) is Liveness.UNKNOWN


@pytest.mark.parametrize("pid", ["-1", "0", "x", "", "99999999999999999999", "²"])
def test_a_process_number_that_is_none_belongs_to_nobody(pid):
    assert liveness(changed(pid=pid)) is Liveness.GONE


def test_an_owner_has_five_parts_even_where_the_host_has_colons(monkeypatch):
    monkeypatch.setattr(owner.socket, "gethostname", lambda: "fe80::1")
    owner._here.cache_clear()
    try:
        mine = new_owner()
        assert len(mine.split(":")) == 5 and liveness(mine) is Liveness.ALIVE
    finally:
        owner._here.cache_clear()
