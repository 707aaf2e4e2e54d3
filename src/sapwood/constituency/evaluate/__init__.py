"""Comparing predicted trees with gold trees."""
