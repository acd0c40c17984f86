"""The documentation site: hand-written pages in `.docs/`, generated ones, and the program that builds both."""
