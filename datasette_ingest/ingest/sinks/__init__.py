"""Where the bodies of files that were found are kept."""
