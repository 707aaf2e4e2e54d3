"""What every family needs: errors, arguments, arrays, outputs, model files, learners, kernels."""
