"""Shared foundations: errors, arguments, arrays, outputs, model files, learners, kernels."""
