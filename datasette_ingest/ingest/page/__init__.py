"""Read HTML pages: links to full text, bibliographic facts, and a classification of the page."""
