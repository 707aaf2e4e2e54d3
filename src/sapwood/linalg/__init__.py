"""Linear algebra without trees or words: decompositions, pivots, optimisation."""
