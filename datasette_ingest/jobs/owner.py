"""Names of lease owners, and whether their process is alive."""

from __future__ import annotations

import functools
import os
import pathlib
import secrets
import socket
from enum import Enum

_LIVE_TOKENS: set[str] = set()


class Liveness(Enum):
    """Whether the owner of a lease is alive, as far as this host can tell."""

    ALIVE = "alive"  # a process of this host that runs
    GONE = "gone"  # a process of this host that ended, or a boot that did
    UNKNOWN = "unknown"  # another host's: only the lease's time can tell


@functools.cache
def _here() -> tuple[str, str]:
    """(host, boot): the host's name with its process-number space, and the boot it is in. A container that borrows its
    host's name has process numbers of its own, so its processes cannot be judged from here."""
    try:
        space = os.readlink("/proc/self/ns/pid").strip("pid:[]")
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        space, boot = "0", "0"
    return f"{socket.gethostname().replace(':', '-')}/{space}", boot


def _started(pid: int) -> str | None:
    """When the process started, in clock ticks since boot (field 22 of /proc/PID/stat); '0' where the system has no
    /proc but the process exists; None when there is no such process."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        if pathlib.Path("/proc/self/stat").exists():
            return None
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except OSError:
            return "0"
        return "0"
    fields = stat.rpartition(b")")[2].split()
    if fields[0] in (b"Z", b"X"):  # dead, its parent has not looked yet
        return None
    return fields[19].decode("ascii")


def new_owner() -> str:
    """A fresh owner of leases in this process: `host:boot:pid:start:token`."""
    host, boot = _here()
    token = secrets.token_hex(6)
    _LIVE_TOKENS.add(token)
    return f"{host}:{boot}:{os.getpid()}:{_started(os.getpid())}:{token}"


def retire(owner: str) -> None:
    """Declare the owner gone: leases that it still holds are free."""
    _LIVE_TOKENS.discard(owner.rpartition(":")[2])


def liveness(owner: str) -> Liveness:
    """Whether an owner made by `new_owner`, on this host or another, is alive."""
    parts = owner.split(":")
    if len(parts) != 5:
        return Liveness.UNKNOWN
    host, boot, pid, start, token = parts
    if host != _here()[0]:
        return Liveness.UNKNOWN
    if boot != _here()[1] or not pid.isdecimal() or _started(int(pid)) != start:
        return Liveness.GONE
    if int(pid) == os.getpid() and token not in _LIVE_TOKENS:
        return Liveness.GONE
    return Liveness.ALIVE
