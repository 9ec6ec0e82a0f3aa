"""Hosts of advertisements and of scripts that follow readers: what a page loads from them is no part of the work."""

from __future__ import annotations

import os
import re

from .urls import split

TRACKERS = os.path.join(os.path.dirname(__file__), "trackers.txt")
"""The list that comes with the package."""

_HOST = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?\.)+(?:[a-z0-9-]{2,}|\*)")
_OF_HOSTS_FILES = frozenset({"", "localhost", "local", "broadcasthost", "ip6-localhost", "ip6-loopback", "0.0.0.0"})


def read_hosts(path: str) -> frozenset[str]:
    """The hosts of a list: one a line, after an address or not as in a hosts file; `#` begins a comment. `ads.*` stands
    for hosts of any domain that begin so.

    :raises OSError: for a file that cannot be read
    :raises ValueError: for a line that names no host, with its number
    """
    hosts = set()
    with open(path, encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            words = line.partition("#")[0].lower().split()
            host = words[-1] if words else ""
            if host in _OF_HOSTS_FILES:
                continue
            if len(words) > 2 or not _HOST.fullmatch(host):
                raise ValueError(f"line {number} of {path} names no host: {line.strip()[:80]!r}")
            hosts.add(host)
    return frozenset(hosts)


def is_tracker(url: str, hosts: frozenset[str]) -> bool:
    """Whether a URL's host, or a domain that it belongs to, is in the list."""
    host = split(url).host
    if f"{host.partition('.')[0]}.*" in hosts:
        return True
    while host:
        if host in hosts:
            return True
        host = host.partition(".")[2]
    return False
