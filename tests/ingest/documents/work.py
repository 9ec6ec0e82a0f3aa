"""Functions for a process pool: well-behaved ones and others."""

from __future__ import annotations

import ctypes
import sys
import time


def add(one: int, other: int) -> int:
    print("what is printed is no answer")
    return one + other


def read_input() -> str:
    return sys.stdin.read()


def loop_for_ever() -> None:
    while True:
        pass


def sleep_for_ever() -> None:
    time.sleep(3600)


def eat_memory() -> int:
    return len(bytearray(2 * 1024**3))


def crash() -> None:
    ctypes.string_at(0)


def be_killed_once(note: str, code: int) -> int:
    """Ends like a process that others end, until a file of this name is there."""
    import os

    if not os.path.exists(note):
        with open(note, "x"):
            pass
        os.kill(os.getpid(), code)
    return os.getpid()


def be_killed(note: str) -> None:
    """The same each time; the file has a byte for each."""
    import os
    import signal

    with open(note, "ab") as file:
        file.write(b".")
    os.kill(os.getpid(), signal.SIGKILL)


def leave() -> None:
    sys.exit(3)


def fail() -> None:
    raise ValueError("not a number")


class Odd(Exception):
    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def fail_oddly() -> None:
    raise Odd(1, 2)


def process_id() -> int:
    import os

    return os.getpid()


def recurse() -> int:
    return recurse() + 1


def imported() -> set[str]:
    return {name.partition(".")[0] for name in sys.modules}
