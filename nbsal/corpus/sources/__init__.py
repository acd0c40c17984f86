"""Reading the rows of a source: files, data frames, tables and iterables."""
