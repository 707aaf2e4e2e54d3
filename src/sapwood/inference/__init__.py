"""Charts, pruning, decoders, and the parser."""
