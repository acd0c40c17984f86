"""Pictures of scored text: HTML, terminal output, PNG, and the colours and fonts they share."""
