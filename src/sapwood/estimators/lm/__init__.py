"""Learning language models from counts of n-grams."""
