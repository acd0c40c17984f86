"""From texts to tokens, and from tokens back to places in the text."""
