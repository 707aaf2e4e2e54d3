"""Reading, writing and preparing the data."""
