"""The folder of a corpus: its files, its lock, and the manifest that lists them."""
