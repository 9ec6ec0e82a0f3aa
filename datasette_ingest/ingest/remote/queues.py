"""Requests that a worker has read and not begun, by host: which is begun next, and which are too many to hold."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class _Host(Generic[T]):
    waiting: deque[T] = field(default_factory=deque)
    begun: int = 0
    promised: float = 0.0
    """The next turn that can be promised to a request that is not held."""


class HostQueues(Generic[T]):
    """A queue for each host, begun in turn.

    :param at_once: requests of one host that are begun and not finished
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._hosts: dict[str, _Host[T]] = {}
        self._ready: OrderedDict[str, None] = OrderedDict()
        """Hosts of which one may be begun."""

    def add(self, host: str, item: T, *, most: int, now: float, interval: float) -> float | None:
        """Hold a request. Where too many wait for the host already it is not held: returns how long it is to wait
        elsewhere, in seconds.

        :param most: requests of the host that may wait here
        :param interval: seconds between two requests to the host
        """
        queue = self._hosts.setdefault(host, _Host())
        if len(queue.waiting) >= most:
            turn = max(queue.promised, now + len(queue.waiting) * interval)
            queue.promised = turn + interval
            return turn - now
        queue.waiting.append(item)
        self._note(host, queue)
        return None

    def put_back(self, host: str, item: T) -> None:
        """Hold a request that was begun as the next one of its host."""
        queue = self._hosts.setdefault(host, _Host())
        queue.waiting.appendleft(item)
        self._note(host, queue)

    def begin(self) -> T | None:
        """The next request to begin, hosts in turn; None if there is none."""
        if not self._ready:
            return None
        host, _ = self._ready.popitem(last=False)
        queue = self._hosts[host]
        queue.begun += 1
        item = queue.waiting.popleft()
        self._note(host, queue)
        return item

    def finish(self, host: str) -> None:
        """A request that was begun is finished, whatever became of it."""
        queue = self._hosts[host]
        queue.begun -= 1
        self._note(host, queue)
        if not queue.begun and not queue.waiting and queue.promised <= 0:
            del self._hosts[host]

    def drop(self, is_dropped: Callable[[T], bool]) -> int:
        """Forget requests that wait. Returns how many."""
        before = len(self)
        for host, queue in list(self._hosts.items()):
            queue.waiting = deque(item for item in queue.waiting if not is_dropped(item))
            queue.promised = 0.0
            self._note(host, queue)
            if not queue.begun and not queue.waiting:
                del self._hosts[host]
        return before - len(self)

    def forget_promises(self, now: float) -> None:
        """Let go of hosts that nothing waits for and whose last promised turn has passed."""
        for host, queue in list(self._hosts.items()):
            if not queue.begun and not queue.waiting and queue.promised <= now:
                del self._hosts[host]

    def __len__(self) -> int:
        """How many requests wait."""
        return sum(len(queue.waiting) for queue in self._hosts.values())

    def __iter__(self) -> Iterator[str]:
        """The hosts that are known."""
        return iter(self._hosts)

    def _note(self, host: str, queue: _Host[T]) -> None:
        if queue.waiting and queue.begun < self._at_once:
            self._ready.setdefault(host)
        else:
            self._ready.pop(host, None)
