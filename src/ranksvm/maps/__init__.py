"""Linear maps from weights to scores, for matrices, kernels and kernel features."""
