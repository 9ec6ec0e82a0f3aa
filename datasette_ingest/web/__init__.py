"""The porch: pages, JSON API and menus over the job engine. Knows no enrichment by name."""
