"""The demo: a small web site on this machine, and a table of links to it."""
