"""Which jobs of a worker run where more are runnable than may run at once: actors get equal shares. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Mark = tuple[str, int]
"""A job: the name of its database, its id."""

SLICE_SECONDS = 600.0
"""A job that has run for so long leaves its place to one of an actor who has fewer."""


@dataclass(frozen=True)
class Holder:
    """A job that has a place. `since`: when it got it, in seconds of any clock. `is_deferred`: all its open rows are
    deferred, so that it has nothing to do now. `is_leaving`: it is about to give the place up."""

    mark: Mark
    actor_id: str | None
    since: float
    is_deferred: bool = False
    is_leaving: bool = False


@dataclass(frozen=True)
class Contender:
    """A runnable job without a place. `rank`: among the jobs of one actor the smallest comes first. `is_deferred`: it
    takes a place that nobody else wants, to see early that its rows were answered from outside."""

    mark: Mark
    actor_id: str | None
    rank: tuple[int, str, Mark]
    is_deferred: bool = False


@dataclass(frozen=True)
class Shares:
    """What changes: the jobs that get a place, those that give theirs up, and those that wait for one."""

    start: tuple[Mark, ...]
    leave: tuple[Mark, ...]
    wait: tuple[Mark, ...]


def share(
    holders: Sequence[Holder],
    contenders: Sequence[Contender],
    *,
    most: int | None,
    now: float,
    served: Mapping[str | None, int],
) -> Shares:
    """Who runs.

    :param most: how many places there are; None: one for each
    :param served: when each actor last got a place, as a number that grows
    """
    staying = [holder for holder in holders if not holder.is_leaving]
    held = Counter(holder.actor_id for holder in staying)
    turns = dict(served)
    left = list(contenders)
    start: list[Mark] = []

    def following() -> Contender:
        return min(
            left, key=lambda each: (each.is_deferred, held[each.actor_id], turns.get(each.actor_id, 0), each.rank)
        )

    while left and (most is None or len(holders) + len(start) < most):
        chosen = following()
        left.remove(chosen)
        held[chosen.actor_id] += 1
        turns[chosen.actor_id] = max(turns.values(), default=0) + 1
        start.append(chosen.mark)
    wait = tuple(each.mark for each in left if not each.is_deferred)
    leave: list[Mark] = []
    promised = len(holders) - len(staying)  # places that are becoming free
    while left and not (chosen := following()).is_deferred:
        left.remove(chosen)
        if promised:
            promised -= 1
        else:
            victim = _who_leaves(staying, chosen.actor_id, held, now)
            if victim is None:
                continue
            staying.remove(victim)
            held[victim.actor_id] -= 1
            leave.append(victim.mark)
        held[chosen.actor_id] += 1
    return Shares(tuple(start), tuple(leave), wait)


def _who_leaves(
    staying: Sequence[Holder], actor_id: str | None, held: Mapping[str | None, int], now: float
) -> Holder | None:
    """The job that gives its place to one of this actor: one with nothing to do; the last one of an actor who has at
    least two more; one that has run for SLICE_SECONDS, of an actor who has more."""
    deferred = [holder for holder in staying if holder.is_deferred]
    if deferred:
        return deferred[0]
    own = held.get(actor_id, 0)
    richest = max((held[holder.actor_id] for holder in staying), default=0)
    rich = [holder for holder in staying if held[holder.actor_id] == richest and holder.actor_id != actor_id]
    if richest >= own + 2 and rich:
        return max(rich, key=lambda holder: (holder.since, holder.mark))
    long = [holder for holder in rich if now - holder.since >= SLICE_SECONDS]
    return min(long, key=lambda holder: (holder.since, holder.mark)) if richest > own and long else None
