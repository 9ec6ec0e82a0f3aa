"""Where a URL's content may come from."""
