"""From a name, a folder or an object to a subject."""
