"""The command line, which no other package imports."""
