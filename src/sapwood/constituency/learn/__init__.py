"""Learners of latent-variable PCFGs, one file each, with the statistics that they collect."""
