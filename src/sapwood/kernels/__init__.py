"""Numba kernels: one file per recursion, flat arrays in, flat arrays out."""
