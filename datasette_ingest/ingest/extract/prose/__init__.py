"""What a page's own text is: an article, a page about one, or something that stands in the way."""
