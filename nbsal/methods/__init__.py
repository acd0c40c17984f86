"""Methods: each is a small frozen dataclass that turns a Trace into scores."""
