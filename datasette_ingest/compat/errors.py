"""What goes wrong with a database, whatever was asked of it."""

from __future__ import annotations

import sqlite3


class Unavailable(sqlite3.DatabaseError):
    """A database cannot be read or written now, whatever is asked of it. The message is a sentence for whoever asks."""


class Busy(Unavailable):
    """Another program held the database's lock all the time we waited."""


class Moved(Unavailable):
    """The file that was opened is not the one that stands at the database's path now: what is written would be lost."""


class Interrupted(Exception):
    """A query ran into its time limit."""
