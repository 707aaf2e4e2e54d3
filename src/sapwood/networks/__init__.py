"""Small neural networks: forward passes, their gradients, and Adam. Knows no trees."""
