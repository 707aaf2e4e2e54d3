"""Learners of arcs: latent dependency trees, and chains."""
