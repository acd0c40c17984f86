"""What a classifier goes by over many texts, and which words are behind its mistakes, measured by hiding words."""
