"""The commands of hankel."""
