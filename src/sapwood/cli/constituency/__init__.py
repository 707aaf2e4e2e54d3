"""The commands of constituency."""
