"""A method applied to texts, and its results."""
