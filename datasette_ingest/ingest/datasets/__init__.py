"""Datasets: the list of all files behind a link, and the files."""
