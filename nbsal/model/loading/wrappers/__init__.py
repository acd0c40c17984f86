"""Models of other libraries, recognised by where their classes come from, without importing any library."""
