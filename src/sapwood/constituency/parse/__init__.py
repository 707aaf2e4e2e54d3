"""Parsing: charts, posteriors, decoders and parsers."""
