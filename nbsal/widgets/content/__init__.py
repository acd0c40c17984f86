"""What the views show of a result: sentences, tables, charts and traits, one file or two for each view."""
