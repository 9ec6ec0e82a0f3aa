"""The demonstration: a small site on loopback, and a table of links into it."""
