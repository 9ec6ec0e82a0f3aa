"""The crawler: from a URL to the full text behind it. Knows nothing of Datasette."""
