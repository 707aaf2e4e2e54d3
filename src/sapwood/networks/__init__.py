"""Small neural networks in NumPy: forward passes, their gradients, and Adam. Knows no trees."""
