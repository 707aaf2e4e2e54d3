"""Charts, posteriors, decoders and parsers."""
