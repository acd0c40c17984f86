"""Whether a reply uses the documents that it cites."""
