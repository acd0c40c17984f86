"""Running a model on a prompt and a reply: scores of the reply's tokens, with units hidden and through the reply."""
