"""The one HTTP client: HTTP/1.1 over asyncio, polite to each host, bounded whatever the server sends."""
