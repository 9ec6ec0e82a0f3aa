"""Which links of a page may lead to the wanted file, and in what order they are worth a try."""
