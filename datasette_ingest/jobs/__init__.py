"""The job engine: runs an enrichment over selected rows, each exactly once. Knows nothing of crawling."""
