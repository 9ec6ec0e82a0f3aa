"""What was found, for other programs: rows of the tables of results -> lines. Knows no Datasette."""
