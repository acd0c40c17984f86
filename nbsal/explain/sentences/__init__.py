"""What is said of an answer: its facts and the sentences that are made of them."""
