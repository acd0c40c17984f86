"""Models behind a server, or behind a function of prompts and replies: what they are asked and how often."""
