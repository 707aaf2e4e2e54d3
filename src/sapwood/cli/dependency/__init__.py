"""The commands of dependency."""
