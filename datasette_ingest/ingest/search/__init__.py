"""Search in the words of files that were found."""
