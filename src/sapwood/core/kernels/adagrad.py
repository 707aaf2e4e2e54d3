"""AdaGrad for log-linear models of hashed features.

g = observed less expected count of a feature;   v[f] += g^2;   w[f] += rate g / sqrt(v[f])
"""

from __future__ import annotations

import numpy as np

from sapwood.core.jit import kernel, part


@part
def adagrad_step(f, slope, weights, squares, rate):
    """Update the weight of one feature, and its sum of squared gradients."""
    squares[f] += slope * slope
    weights[f] += rate * slope / np.sqrt(squares[f])


@kernel
def adagrad_rows(features, residue, weights, squares, rate):
    """Update all features of all rows along `residue`, observed less expected counts."""
    for x in range(features.shape[0]):
        slope = residue[x]
        if slope == 0.0:
            continue
        for k in range(features.shape[1]):
            adagrad_step(features[x, k], slope, weights, squares, rate)


@kernel
def adagrad_parts(features, n_features, lengths, residue, weights, squares, rate):
    """Update the features of parts along `residue`, each with and without the part's length."""
    for p in range(len(features)):
        slope = np.float32(residue[p])
        if abs(slope) < 1e-4:
            continue
        for k in range(n_features[p]):
            f = features[p, k]
            adagrad_step(f, slope, weights, squares, rate)
            if lengths[p]:
                adagrad_step(f ^ lengths[p], slope, weights, squares, rate)


@kernel
def adagrad_labels(features, residue, weights, squares, rate):
    """Update a row of the table for each feature along `residue`, shape [n_parts, n_labels]."""
    for p in range(len(features)):
        for k in range(residue.shape[1]):
            slope = residue[p, k]
            if abs(slope) < 1e-3:
                continue
            for f in range(features.shape[1]):
                adagrad_step(np.int64(features[p, f]) + k, slope, weights, squares, rate)
