"""Layer-wise relevance propagation on stock models: rules, and the mode that runs a forward under them."""
