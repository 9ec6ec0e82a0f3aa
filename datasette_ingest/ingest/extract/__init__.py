"""What a page says: where the full text is, and whether it is one itself."""
