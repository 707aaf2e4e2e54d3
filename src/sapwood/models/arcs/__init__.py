"""Models of arcs between words: latent dependency trees, and chains."""
