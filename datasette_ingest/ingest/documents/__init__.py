"""Processors: each reads one kind of file that is found, and the processes in which they do it."""
