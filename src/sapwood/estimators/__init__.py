"""Learners: one file each; `fit` reads like the algorithm."""
