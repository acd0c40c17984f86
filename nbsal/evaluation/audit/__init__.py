"""What a classifier relies on over many texts, and which words are behind its mistakes, measured by hiding words."""
