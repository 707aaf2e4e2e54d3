"""Charts of weighted grammars without labels: inside, outside, derivatives, best brackets.

Notation (WCFG, section 2.2)
----------------------------
    beta[i, j, a]   inside vector of the words [i, j), divided by 2**scale[i, j]
    alpha[i, j, a]  outside vector, times 2**scale[i, j], divided by the value of the string, so
                    that alpha . beta is the posterior of a span
    A[a, b, c]      the bilinear operator;  T[x, a]  terminals;  alpha_*[a]  the initial vector

    beta[i, j, a]   = sum over k, b, c of  A[a, b, c] beta[i, k, b] beta[k, j, c]
    alpha[i, k, b] += sum over j, a, c of  alpha[i, j, a] A[a, b, c] beta[k, j, c]
    alpha[k, j, c] += sum over i, a, b of  alpha[i, j, a] A[a, b, c] beta[i, k, b]

Values may be negative, so that there is no log space: each span has a power of two of its own.
"""

from __future__ import annotations

import math

import numpy as np

from sapwood.core.jit import kernel, part

ZERO_SCALE = -(1 << 40)  # scale of a span whose vector is 0
LEAST_POWER = -2000  # powers of two below it are 0 in any case


@kernel
def fill_inside_chart(words, terminals, binary, beta, scale):
    """Fill the inside vectors of all spans.

    Parameters
    ----------
    words : [length]
        Symbol numbers.
    terminals : [d, n]
    binary : [n, n, n]
    beta : [length, length + 1, n]
    scale : [length, length + 1]

    Cost: O(length^3 n^2 + length^2 n^3).
    """
    length, n = len(words), terminals.shape[1]
    by_end = np.zeros((length + 1, length, n))
    pair = np.zeros((n, n))
    _inside(words, terminals, binary, beta, by_end, scale, pair)


@part
def _inside(words, terminals, binary, beta, by_end, scale, pair):
    length, n = len(words), terminals.shape[1]
    for size in range(1, length + 1):
        for i in range(length - size + 1):
            j = i + size
            top = 0
            if size == 1:
                for a in range(n):
                    beta[i, j, a] = terminals[words[i], a]
            else:
                top = _pairs(i, j, beta, by_end, scale, pair)
                for a in range(n):
                    total = 0.0
                    for b in range(n):
                        for c in range(n):
                            total += binary[a, b, c] * pair[b, c]
                    beta[i, j, a] = total
            largest = 0.0
            for a in range(n):
                largest = max(largest, abs(beta[i, j, a]))
            if largest == 0.0:
                scale[i, j] = ZERO_SCALE
            else:
                power = math.frexp(largest)[1]
                scale[i, j] = top + power
                for a in range(n):
                    beta[i, j, a] = math.ldexp(beta[i, j, a], -power)
            for a in range(n):
                by_end[j, i, a] = beta[i, j, a]


@part
def _pairs(i, j, beta, by_end, scale, pair):
    """Sum over splits k of beta[i, k] (x) beta[k, j], divided by 2**(what is returned)."""
    n = pair.shape[0]
    for b in range(n):
        for c in range(n):
            pair[b, c] = 0.0
    top = 2 * ZERO_SCALE
    for k in range(i + 1, j):
        top = max(top, scale[i, k] + scale[k, j])
    if top < ZERO_SCALE // 2:
        return 0
    for k in range(i + 1, j):
        gap = scale[i, k] + scale[k, j] - top
        if gap > LEAST_POWER:
            factor = math.ldexp(1.0, int(gap))
            for b in range(n):
                left = factor * beta[i, k, b]
                for c in range(n):
                    pair[b, c] += left * by_end[j, k, c]
    return top


@kernel
def string_values(words, starts, initial, terminals, binary, value, scale):
    """The value of each of some strings, as `value * 2**scale`.

    Parameters
    ----------
    words, starts
        Symbol numbers of all strings, one after the other; string s is
        `words[starts[s] : starts[s + 1]]`, never empty.
    """
    n_strings, n = len(starts) - 1, len(initial)
    longest = 0
    for s in range(n_strings):
        longest = max(longest, starts[s + 1] - starts[s])
    beta = np.zeros((longest, longest + 1, n))
    by_end = np.zeros((longest + 1, longest, n))
    scales = np.zeros((longest, longest + 1), np.int64)
    pair = np.zeros((n, n))
    for s in range(n_strings):
        length = starts[s + 1] - starts[s]
        _inside(words[starts[s] : starts[s + 1]], terminals, binary, beta, by_end, scales, pair)
        total = 0.0
        for a in range(n):
            total += initial[a] * beta[0, length, a]
        value[s] = total
        scale[s] = scales[0, length]


@kernel
def fill_outside_chart(words, initial, terminals, binary, beta, scale, alpha):
    """Fill the outside vectors of all spans, from their inside vectors; see this module.

    Returns the value of the string divided by 2**scale of the whole; where it is 0, `alpha` is not
    filled.
    """
    return _outside(len(words), initial, binary, beta, scale, alpha)


@part
def _outside(length, initial, binary, beta, scale, alpha):
    n = len(initial)
    total = 0.0
    for a in range(n):
        total += initial[a] * beta[0, length, a]
    if total == 0.0:
        return total
    for i in range(length):
        for j in range(i + 1, length + 1):
            for a in range(n):
                alpha[i, j, a] = 0.0
    for a in range(n):
        alpha[0, length, a] = initial[a] / total
    down = np.zeros((n, n))
    for gap in range(length - 1):
        size = length - gap
        for i in range(gap + 1):
            j = i + size
            # DOWN: what [i, j) hands to the pair of its children, once for all splits
            for b in range(n):
                for c in range(n):
                    sum_ = 0.0
                    for a in range(n):
                        sum_ += alpha[i, j, a] * binary[a, b, c]
                    down[b, c] = sum_
            for k in range(i + 1, j):
                power = scale[i, k] + scale[k, j] - scale[i, j]
                if power > LEAST_POWER and power < -LEAST_POWER:
                    factor = math.ldexp(1.0, int(power))
                    for b in range(n):
                        sum_ = 0.0
                        left = factor * beta[i, k, b]
                        for c in range(n):
                            sum_ += down[b, c] * beta[k, j, c]
                            alpha[k, j, c] += left * down[b, c]
                        alpha[i, k, b] += factor * sum_
    return total


@kernel
def log_slopes(
    words,
    starts,
    weight,
    initial,
    terminals,
    binary,
    root_slope,
    word_slope,
    rule_slope,
    log_values,
):
    """Add the weighted derivatives of log |value| of strings by all weights; fill `log_values`.

    Times the weights they are expected counts: those of the derivations of a string, each weighted
    by its posterior.

    Parameters
    ----------
    words, starts
        As in `string_values`.
    weight : [n_strings]
        How often each string counts.
    root_slope, word_slope, rule_slope
        Receive the derivatives, in the shapes of `initial`, `terminals` and `binary`.
    log_values : [n_strings]
        Receives logs of absolute values; strings of the value 0 (-inf) add nothing.
    """
    n_strings, n = len(starts) - 1, len(initial)
    longest = 0
    for s in range(n_strings):
        longest = max(longest, starts[s + 1] - starts[s])
    beta = np.zeros((longest, longest + 1, n))
    alpha = np.zeros((longest, longest + 1, n))
    by_end = np.zeros((longest + 1, longest, n))
    scale = np.zeros((longest, longest + 1), np.int64)
    pair = np.zeros((n, n))
    for s in range(n_strings):
        row, length = words[starts[s] : starts[s + 1]], starts[s + 1] - starts[s]
        _inside(row, terminals, binary, beta, by_end, scale, pair)
        total = _outside(length, initial, binary, beta, scale, alpha)
        if total == 0.0:
            log_values[s] = -np.inf
            continue
        log_values[s] = math.log(abs(total)) + scale[0, length] * math.log(2.0)
        for a in range(n):
            root_slope[a] += weight[s] * beta[0, length, a] / total
        for i in range(length):
            factor = weight[s] * math.ldexp(1.0, int(-max(scale[i, i + 1], LEAST_POWER)))
            for a in range(n):
                word_slope[row[i], a] += factor * alpha[i, i + 1, a]
            for j in range(i + 2, length + 1):
                power = _pairs(i, j, beta, by_end, scale, pair) - scale[i, j]
                if power > LEAST_POWER and power < -LEAST_POWER:
                    factor = weight[s] * math.ldexp(1.0, int(power))
                    for a in range(n):
                        above = factor * alpha[i, j, a]
                        for b in range(n):
                            for c in range(n):
                                rule_slope[a, b, c] += above * pair[b, c]


@kernel
def tree_counts(
    word, left, right, starts, weight, initial, terminals, binary,
    root_sum, word_sum, rule_sum, log_values,
):  # fmt: skip
    """Add the weighted expected counts of strings whose bracketing is known; fill `log_values`.

    Parameters
    ----------
    word, left, right
        Nodes of all trees, children before parents: the symbol of a leaf and -1, -1; or -1 and the
        places of the children, counted from the start of the tree.
    starts : [n_trees + 1]
        Where the nodes of each tree start; the root is its last node.
    root_sum, word_sum, rule_sum
        Receive the counts: derivatives of the log of the value by logs of the weights.
    """
    n = len(initial)
    longest = 0
    for t in range(len(starts) - 1):
        longest = max(longest, starts[t + 1] - starts[t])
    beta, alpha = np.zeros((longest, n)), np.zeros((longest, n))
    scale = np.zeros(longest, np.int64)
    for t in range(len(starts) - 1):
        first, size = starts[t], starts[t + 1] - starts[t]
        for v in range(size):
            _tree_inside(v, first, word, left, right, terminals, binary, beta, scale)
        total = 0.0
        for a in range(n):
            total += initial[a] * beta[size - 1, a]
        if total == 0.0 or scale[size - 1] <= ZERO_SCALE // 2:
            log_values[t] = -np.inf
            continue
        log_values[t] = math.log(abs(total)) + scale[size - 1] * math.log(2.0)
        for a in range(n):
            alpha[size - 1, a] = initial[a] / total
            root_sum[a] += weight[t] * alpha[size - 1, a] * beta[size - 1, a]
        for v in range(size - 1, -1, -1):
            if left[first + v] < 0:
                for a in range(n):
                    word_sum[word[first + v], a] += weight[t] * alpha[v, a] * beta[v, a]
                continue
            y, z = left[first + v], right[first + v]
            factor = math.ldexp(1.0, int(scale[y] + scale[z] - scale[v]))
            for a in range(n):
                alpha[y, a], alpha[z, a] = 0.0, 0.0
            for a in range(n):
                above = factor * alpha[v, a]
                for b in range(n):
                    for c in range(n):
                        down = above * binary[a, b, c]
                        alpha[y, b] += down * beta[z, c]
                        alpha[z, c] += down * beta[y, b]
                        rule_sum[a, b, c] += weight[t] * down * beta[y, b] * beta[z, c]


@part
def _tree_inside(v, first, word, left, right, terminals, binary, beta, scale):
    n = terminals.shape[1]
    top = 0
    if left[first + v] < 0:
        for a in range(n):
            beta[v, a] = terminals[word[first + v], a]
    else:
        y, z = left[first + v], right[first + v]
        top = scale[y] + scale[z]
        for a in range(n):
            total = 0.0
            for b in range(n):
                for c in range(n):
                    total += binary[a, b, c] * beta[y, b] * beta[z, c]
            beta[v, a] = total
    largest = 0.0
    for a in range(n):
        largest = max(largest, abs(beta[v, a]))
    if largest == 0.0:
        scale[v] = ZERO_SCALE
    else:
        power = math.frexp(largest)[1]
        scale[v] = top + power
        for a in range(n):
            beta[v, a] = math.ldexp(beta[v, a], -power)


@kernel
def best_brackets(gain, split):
    """The binary tree with the largest sum of gains of its spans; returns that sum.

        best[i, j] = gain[i, j] + max over k of  best[i, k] + best[k, j]

    Parameters
    ----------
    gain : [length, length + 1]
    split : [length, length + 1]
        Receives the best split of each span; of equals, the first, so that nothing known is
        right-branching.
    """
    length = len(gain)
    best, by_end = np.zeros((length, length + 1)), np.zeros((length + 1, length))
    for size in range(1, length + 1):
        for i in range(length - size + 1):
            j = i + size
            top, at = 0.0, 0
            if size > 1:
                top, at = best[i, i + 1] + by_end[j, i + 1], i + 1
                for k in range(i + 2, j):
                    here = best[i, k] + by_end[j, k]
                    if here > top:
                        top, at = here, k
            best[i, j] = by_end[j, i] = top + gain[i, j]
            split[i, j] = at
    return best[0, length]
