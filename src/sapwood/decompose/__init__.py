"""Pure linear algebra: no trees, no words, no models."""
