"""The commands of identify."""
