"""Runs jobs: cycles, batches, runners, the worker. It does not know who asks."""
