"""The command line: thin, and nobody imports it."""
