"""Methods as the authors' own programs ran them, bugs included, to reproduce published numbers."""
