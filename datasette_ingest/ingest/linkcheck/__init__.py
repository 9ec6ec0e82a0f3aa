"""Checks links: from a URL to one of seven words, with as few bytes as the verdict needs."""
