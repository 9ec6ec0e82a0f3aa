"""Read HTML pages: links to full text, bibliographic facts, and what kind of page it is."""
