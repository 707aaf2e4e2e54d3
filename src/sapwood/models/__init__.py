"""Models: arrays with invariants that sample, score and save themselves; no learning here."""
