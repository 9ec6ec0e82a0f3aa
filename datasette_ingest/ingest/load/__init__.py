"""Loading requests from dumps and tables: bytes -> lines -> rows of ingest_request. Knows no Datasette."""
