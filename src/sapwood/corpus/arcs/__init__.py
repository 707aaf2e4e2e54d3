"""Dependency trees: reading, lifting, drawing, packing; and made from phrase-structure trees."""
