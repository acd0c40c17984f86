"""Errors, progress, checks of arguments and other things that any part of the package uses."""
