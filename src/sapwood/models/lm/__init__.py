"""Language models: the probability of a word given the words before it."""
