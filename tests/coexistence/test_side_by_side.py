"""Beside datasette-enrichments, both installed for real: either load order, one database, nobody in the other's way."""

from __future__ import annotations

import pytest

from .conftest import Play

pytestmark = pytest.mark.slow


def test_both_load_and_every_page_answers(play: Play) -> None:
    play("both_load")


def test_our_slugs_are_never_offered_by_them_nor_theirs_by_us(play: Play) -> None:
    play("slugs_stay_apart")


def test_tables_that_they_made_are_adopted_and_their_rows_left_alone(play: Play) -> None:
    play("their_tables_first")


def test_they_can_work_in_tables_that_we_made(play: Play) -> None:
    play("our_tables_first")


def test_our_jobs_show_on_their_pages_in_every_status(play: Play) -> None:
    play("our_jobs_on_their_pages")


def test_their_jobs_show_on_our_pages_and_commands(play: Play) -> None:
    play("their_jobs_on_our_pages")


def test_their_pause_button_pauses_our_job_and_nothing_is_lost(play: Play) -> None:
    play("their_pause_button")


def test_their_cancel_button_cancels_our_job_and_keeps_what_was_done(play: Play) -> None:
    play("their_cancel_button")


def test_their_resume_button_leaves_a_running_job_that_we_pick_up(play: Play) -> None:
    play("their_resume_button")


def test_running_without_a_reservation_is_picked_up(play: Play) -> None:
    play("running_without_a_reservation")


def test_we_leave_their_jobs_alone_whatever_their_status(play: Play) -> None:
    play("their_jobs_left_alone")


def test_a_slug_that_both_sides_register_leaves_each_job_with_its_owner(play: Play) -> None:
    play("one_slug_on_both_sides")


def test_a_server_with_both_runs_a_job_of_each(play: Play) -> None:
    play("one_server_for_both")
