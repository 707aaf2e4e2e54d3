"""Features of the inside and the outside of tree nodes."""
