"""Services that the sources ask, played on loopback."""
