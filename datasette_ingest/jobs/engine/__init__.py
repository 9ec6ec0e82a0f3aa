"""Runs jobs: cycles, batches, runners, the worker. It imports no caller."""
