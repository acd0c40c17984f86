"""What to run for some texts, running it, and what was recorded."""
