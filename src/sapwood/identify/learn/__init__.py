"""One file for each learner, with its statistics beside it."""
