"""Trees: reading, cleaning, transforming, packing; words; bundled and downloadable data."""
