"""The model under explanation: loading, tokens, targets, masked forward passes, the LM head."""
