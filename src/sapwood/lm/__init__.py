"""Language models and eigenwords."""
