"""What can be learnt at all, and from how much data."""
