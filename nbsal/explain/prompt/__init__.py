"""From what is asked to the tokens that a model reads, and the reply that it writes."""
