"""Pages, the JSON API and menus. They import the job framework, never a particular enrichment."""
