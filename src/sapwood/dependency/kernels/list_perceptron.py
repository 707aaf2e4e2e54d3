"""Steps of the averaged perceptron over lists of trees, and the trees that weights choose.

Notation
--------
    list      trees `starts[l]` up to `starts[l + 1]`; words of tree t from `offsets[t]` on
    score     sum of the weights of all hashed features of its words, and dense features . weights
    guess     the tree of a list with the highest score, the first of equals
    goal      the same among the trees with the most right heads
"""

from __future__ import annotations

from sapwood.core.jit import kernel, part


@part
def _score(tree, offsets, features, dense, sparse, weights):
    total = 0.0
    for word in range(offsets[tree], offsets[tree + 1]):
        for k in range(features.shape[1]):
            total += sparse[features[word, k]]
    for c in range(len(weights)):
        total += dense[tree, c] * weights[c]
    return total


@part
def _move(tree, sign, time, offsets, features, sparse, late):
    """Add to the weights of a tree's features, and to the sums that know when."""
    for word in range(offsets[tree], offsets[tree + 1]):
        for k in range(features.shape[1]):
            sparse[features[word, k]] += sign
            late[features[word, k]] += sign * time


@kernel
def follow_lists(
    numbers,
    starts,
    offsets,
    features,
    dense,
    right,
    held,
    sparse,
    weights,
    late,
    late_weights,
    time,
):
    """Update weights list by list; returns the time after the last list.

    Parameters
    ----------
    held
        How many of the first columns of dense features keep their weights.
    late, late_weights
        Sums of steps, each times the time at which it was made.
    """
    for index in numbers:
        first = starts[index]
        guess, goal = first, first
        highest = of_goal = _score(first, offsets, features, dense, sparse, weights)
        for tree in range(first + 1, starts[index + 1]):
            score = _score(tree, offsets, features, dense, sparse, weights)
            if score > highest:
                guess, highest = tree, score
            if right[tree] > right[goal] or (right[tree] == right[goal] and score > of_goal):
                goal, of_goal = tree, score
        if right[guess] < right[goal]:
            for c in range(held, len(weights)):
                step = dense[goal, c] - dense[guess, c]
                weights[c] += step
                late_weights[c] += time * step
            _move(goal, 1.0, time, offsets, features, sparse, late)
            _move(guess, -1.0, time, offsets, features, sparse, late)
        time += 1
    return time


@kernel
def count_right(numbers, starts, offsets, features, dense, right, sparse, weights):
    """Right heads of the trees that weights choose."""
    total = 0
    for index in numbers:
        guess, highest = starts[index], -float("inf")
        for tree in range(starts[index], starts[index + 1]):
            score = _score(tree, offsets, features, dense, sparse, weights)
            if score > highest:
                guess, highest = tree, score
        total += right[guess]
    return total
