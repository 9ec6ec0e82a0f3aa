"""The links of a page that may lead to the wanted file: by rules, and by a score of what a link says."""
