"""The HTTP client: HTTP/1.1 on asyncio, paced for each host, with limits on everything that a server sends."""
