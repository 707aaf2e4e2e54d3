"""Inside, outside and expected counts of a latent grammar on given trees (Baum-Welch on trees).

Notation
--------
    C[r][h, p, q]   probability of rule r and the children's states p, q given the parent's state h
    beta[node]      inside vector, divided by down[node], its largest entry
    alpha[node]     outside vector, scaled so that alpha . beta = 1 at every node of a tree
    w[node]         alpha / down
    pair[node]      beta_left (x) beta_right, flat over (p, q)
    S[r]            sum over the rule's nodes of w (x) pair

C * S is then the expected count of each rule with each combination of states, so that no node needs
the probability of its tree.

A group is a set of nodes of the same rule, none of which is a descendant of another. With C as a
matrix [h, (p, q)], the three passes over a group are matrix products

    inside  beta = pair C'      outside  alpha_left (x) alpha_right <- w C      sums  S = w' pair

Products are taken in blocks of 4 nodes by 4 states h by a tile of (p, q): each number read is used
in 4 multiply-adds, the 16 sums or weights stay in registers, and the tiles stay in the L1 cache.
Incomplete blocks are padded with rows whose result is ignored or whose weight is 0.
"""

from __future__ import annotations

import numpy as np

from sapwood.core.jit import kernel, part

_FAST = {"contract", "reassoc"}
_TILE = np.uint64(256)  # numbers of a row in a tile: 4 rows of C and 4 pairs take 16 KB
_WIDE = np.uint64(264)  # from row to row of scratch: a constant, or loops check rows for overlap
_CHUNK = np.uint64(32)  # nodes whose pairs are kept at once for the sums: 64 KB of tiles
_BLOCK = np.uint64(4)  # nodes, and states, of a product
_0, _1, _2, _3 = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)
_ROW1, _ROW2, _ROW3 = _WIDE, _WIDE * _2, _WIDE * _3
MAX_STATES = 256  # a vector must fit into a row of scratch


@part(fastmath=_FAST)
def _rows(at, h, m, size):
    """Return the offsets of rows h to h + 3 of a tensor; the last row is repeated as padding."""
    last = m - _1
    return (
        at + h * size, at + min(h + _1, last) * size, at + min(h + _2, last) * size,
        at + min(h + _3, last) * size,
    )  # fmt: skip


@part(fastmath=_FAST)
def _four(w, at):
    return w[at], w[at + _1], w[at + _2], w[at + _3]


@part(fastmath=_FAST)
def _add_four(w, at, a, b, c, d):
    w[at] += a
    w[at + _1] += b
    w[at + _2] += c
    w[at + _3] += d


@part(fastmath=_FAST)
def _add_inside(tensors, rows, pair, n, h, total):
    """total[g, h + k] += sum over i < n of pair[g, i] tensors[rows[k] + i], for 4 x 4 of g, k."""
    r0, r1, r2, r3 = rows
    s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = 0.0
    s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = 0.0
    for i in range(n):
        t0, t1, t2, t3 = tensors[r0 + i], tensors[r1 + i], tensors[r2 + i], tensors[r3 + i]
        b0, b1, b2, b3 = pair[i], pair[_ROW1 + i], pair[_ROW2 + i], pair[_ROW3 + i]
        s00, s01, s02, s03 = s00 + b0 * t0, s01 + b0 * t1, s02 + b0 * t2, s03 + b0 * t3
        s10, s11, s12, s13 = s10 + b1 * t0, s11 + b1 * t1, s12 + b1 * t2, s13 + b1 * t3
        s20, s21, s22, s23 = s20 + b2 * t0, s21 + b2 * t1, s22 + b2 * t2, s23 + b2 * t3
        s30, s31, s32, s33 = s30 + b3 * t0, s31 + b3 * t1, s32 + b3 * t2, s33 + b3 * t3
    _add_four(total, h, s00, s01, s02, s03)
    _add_four(total, h + _ROW1, s10, s11, s12, s13)
    _add_four(total, h + _ROW2, s20, s21, s22, s23)
    _add_four(total, h + _ROW3, s30, s31, s32, s33)


@part(fastmath=_FAST)
def _add_outside(tensors, rows, w, n, h, both):
    """both[g, i] += sum over k of w[g, h + k] tensors[rows[k] + i], for 4 x 4 of g, k."""
    r0, r1, r2, r3 = rows
    w00, w01, w02, w03 = _four(w, h)
    w10, w11, w12, w13 = _four(w, h + _ROW1)
    w20, w21, w22, w23 = _four(w, h + _ROW2)
    w30, w31, w32, w33 = _four(w, h + _ROW3)
    for i in range(n):
        t0, t1, t2, t3 = tensors[r0 + i], tensors[r1 + i], tensors[r2 + i], tensors[r3 + i]
        both[i] += w00 * t0 + w01 * t1 + w02 * t2 + w03 * t3
        both[_ROW1 + i] += w10 * t0 + w11 * t1 + w12 * t2 + w13 * t3
        both[_ROW2 + i] += w20 * t0 + w21 * t1 + w22 * t2 + w23 * t3
        both[_ROW3 + i] += w30 * t0 + w31 * t1 + w32 * t2 + w33 * t3


@part(fastmath=_FAST)
def _add_sums(w, pair, g, n, h, sums, at):
    """sums[at][k, i] += sum over 4 nodes from g of w[node, h + k] pair[node, i], for 4 of k."""
    g *= _WIDE
    w00, w01, w02, w03 = _four(w, g + h)
    w10, w11, w12, w13 = _four(w, g + h + _ROW1)
    w20, w21, w22, w23 = _four(w, g + h + _ROW2)
    w30, w31, w32, w33 = _four(w, g + h + _ROW3)
    for i in range(n):
        b0, b1, b2, b3 = pair[g + i], pair[g + _ROW1 + i], pair[g + _ROW2 + i], pair[g + _ROW3 + i]
        sums[at + i] += w00 * b0 + w10 * b1 + w20 * b2 + w30 * b3
        sums[at + _ROW1 + i] += w01 * b0 + w11 * b1 + w21 * b2 + w31 * b3
        sums[at + _ROW2 + i] += w02 * b0 + w12 * b1 + w22 * b2 + w32 * b3
        sums[at + _ROW3 + i] += w03 * b0 + w13 * b1 + w23 * b2 + w33 * b3


@part(fastmath=_FAST)
def _sizes(x, label, left, right, n_states):
    """Return the numbers of states of a node and of its children."""
    return (
        np.uint64(n_states[label[x]]), np.uint64(n_states[label[left[x]]]),
        np.uint64(n_states[label[right[x]]]),
    )  # fmt: skip


@part(fastmath=_FAST)
def _full(m):
    """Round m up to a multiple of the block size."""
    return (m + _BLOCK - _1) // _BLOCK * _BLOCK


@part(fastmath=_FAST)
def _scratch(n_rows):
    """Return rows of _WIDE zeros as one contiguous flat array."""
    return np.zeros(np.int64(n_rows * _WIDE))


@part(fastmath=_FAST)
def _clear(rows, n_rows, n):
    for at in range(_0, n_rows * _WIDE, _WIDE):
        for i in range(n):
            rows[at + i] = 0.0


@part(fastmath=_FAST)
def _copy(vectors, x, m, rows, g):
    for h in range(m):
        rows[g * _WIDE + h] = vectors[x, h]


@part(fastmath=_FAST)
def _fill_weights(alpha, down, x, m, w, g):
    """Set w[g] = alpha[x] / down[x], with 0 in the padding of the last block."""
    at, scale = g * _WIDE, down[x]
    for h in range(m):
        w[at + h] = alpha[x, h] / scale
    for h in range(m, _full(m)):
        w[at + h] = 0.0


@part(fastmath=_FAST)
def _fill_pairs(ones, others, g, first, last, m_z, pair):
    """pair[node] = ones[node] (x) others[node] for 4 nodes from g, states first to last of one."""
    g *= _WIDE
    for p in range(first, last):
        w0, w1 = ones[g + p], ones[g + _ROW1 + p]
        w2, w3 = ones[g + _ROW2 + p], ones[g + _ROW3 + p]
        at = g + (p - first) * m_z
        for q in range(m_z):
            pair[at + q] = w0 * others[g + q]
            pair[at + _ROW1 + q] = w1 * others[g + _ROW1 + q]
            pair[at + _ROW2 + q] = w2 * others[g + _ROW2 + q]
            pair[at + _ROW3 + q] = w3 * others[g + _ROW3 + q]


@part(fastmath=_FAST)
def _store_scaled(found, at, m, x, beta, down):
    """beta[x] = the vector at `at`, divided by its largest entry, which becomes down[x]."""
    largest = 0.0
    for h in range(m):
        largest = max(largest, found[at + h])
    down[x] = largest
    divisor = largest if largest > 0.0 else 1.0
    for h in range(m):
        beta[x, h] = found[at + h] / divisor


@kernel(fastmath=_FAST)
def inside_leaves(nodes, label, n_states, leaf, leaves, beta, down):
    """Fill `beta` and `down` of the tags; `leaf` holds offsets of emission vectors in `leaves`."""
    for place in range(len(nodes)):
        x = np.uint64(nodes[place])
        _store_scaled(leaves, np.uint64(leaf[x]), np.uint64(n_states[label[x]]), x, beta, down)


@kernel(fastmath=_FAST)
def inside(nodes, groups, label, rule, left, right, n_states, tensor_start, tensors, beta, down):
    """Fill `beta` and `down` of the phrases, from those of the tags."""
    ones, others = _scratch(_BLOCK), _scratch(_BLOCK)
    pair, total = _scratch(_BLOCK), _scratch(_BLOCK)
    for group in range(len(groups) - 1):
        start, end = np.uint64(groups[group]), np.uint64(groups[group + 1])
        x = np.uint64(nodes[start])
        at = np.uint64(tensor_start[rule[x]])
        m, m_y, m_z = _sizes(x, label, left, right, n_states)
        step = max(_1, _TILE // m_z)
        for block in range(start, end, _BLOCK):
            n_nodes = min(_BLOCK, end - block)
            for g in range(n_nodes):
                x = np.uint64(nodes[block + g])
                _copy(beta, np.uint64(left[x]), m_y, ones, g)
                _copy(beta, np.uint64(right[x]), m_z, others, g)
            _clear(total, _BLOCK, _full(m))
            for p in range(_0, m_y, step):
                last = min(p + step, m_y)
                _fill_pairs(ones, others, _0, p, last, m_z, pair)
                for h in range(_0, m, _BLOCK):
                    rows = _rows(at + p * m_z, h, m, m_y * m_z)
                    _add_inside(tensors, rows, pair, (last - p) * m_z, h, total)
            for g in range(n_nodes):
                _store_scaled(total, g * _WIDE, m, np.uint64(nodes[block + g]), beta, down)


@kernel(fastmath=_FAST)
def outside_roots(roots, label, n_states, state_start, root, beta, alpha, counts):
    """Fill `alpha` of the roots, add their states to `counts`, and return sum log(root . beta)."""
    log_total = 0.0
    for place in range(len(roots)):
        x = np.uint64(roots[place])
        at, m = np.uint64(state_start[label[x]]), np.uint64(n_states[label[x]])
        total = 0.0
        for h in range(m):
            total += root[at + h] * beta[x, h]
        for h in range(m):
            alpha[x, h] = root[at + h] / total
            counts[at + h] += alpha[x, h] * beta[x, h]
        log_total += np.log(total)
    return log_total


@part(fastmath=_FAST)
def _contract(both, ones, others, first, last, m_z, up_one, up_other):
    """Contract tiles `both` [first to last, m_z] of 4 nodes with the vector of either child."""
    for p in range(first, last):
        w0, w1, w2, w3 = ones[p], ones[_ROW1 + p], ones[_ROW2 + p], ones[_ROW3 + p]
        s0 = s1 = s2 = s3 = 0.0
        at = (p - first) * m_z
        for q in range(m_z):
            b0, b1 = both[at + q], both[at + _ROW1 + q]
            b2, b3 = both[at + _ROW2 + q], both[at + _ROW3 + q]
            s0 += b0 * others[q]
            s1 += b1 * others[_ROW1 + q]
            s2 += b2 * others[_ROW2 + q]
            s3 += b3 * others[_ROW3 + q]
            up_other[q] += b0 * w0
            up_other[_ROW1 + q] += b1 * w1
            up_other[_ROW2 + q] += b2 * w2
            up_other[_ROW3 + q] += b3 * w3
        up_one[p], up_one[_ROW1 + p], up_one[_ROW2 + p], up_one[_ROW3 + p] = s0, s1, s2, s3


@kernel(fastmath=_FAST)
def outside(
    nodes, groups, label, rule, left, right, n_states, tensor_start, tensors, beta, down, alpha
):
    """Fill `alpha` of all nodes below the roots, from `alpha` of the roots."""
    ones, others, both = _scratch(_BLOCK), _scratch(_BLOCK), _scratch(_BLOCK)
    w, up_one, up_other = _scratch(_BLOCK), _scratch(_BLOCK), _scratch(_BLOCK)
    for group in range(len(groups) - 1):
        start, end = np.uint64(groups[group]), np.uint64(groups[group + 1])
        x = np.uint64(nodes[start])
        at = np.uint64(tensor_start[rule[x]])
        m, m_y, m_z = _sizes(x, label, left, right, n_states)
        step = max(_1, _TILE // m_z)
        for block in range(start, end, _BLOCK):
            n_nodes = min(_BLOCK, end - block)
            for g in range(n_nodes):
                x = np.uint64(nodes[block + g])
                _fill_weights(alpha, down, x, m, w, g)
                _copy(beta, np.uint64(left[x]), m_y, ones, g)
                _copy(beta, np.uint64(right[x]), m_z, others, g)
            _clear(up_other, _BLOCK, m_z)
            for p in range(_0, m_y, step):
                last = min(p + step, m_y)
                _clear(both, _BLOCK, (last - p) * m_z)
                for h in range(_0, m, _BLOCK):
                    rows = _rows(at + p * m_z, h, m, m_y * m_z)
                    _add_outside(tensors, rows, w, (last - p) * m_z, h, both)
                _contract(both, ones, others, p, last, m_z, up_one, up_other)
            for g in range(n_nodes):
                x = np.uint64(nodes[block + g])
                _store(up_one, g, m_y, alpha, np.uint64(left[x]))
                _store(up_other, g, m_z, alpha, np.uint64(right[x]))


@part(fastmath=_FAST)
def _store(rows, g, m, vectors, x):
    for h in range(m):
        vectors[x, h] = rows[g * _WIDE + h]


@part(fastmath=_FAST)
def _add_chunk(nodes, left, right, sizes, beta, down, alpha, ones, others, pair, w, sums):
    """Add w (x) pair of at most _CHUNK nodes of one rule to `sums`."""
    m, m_y, m_z = sizes
    n_nodes = np.uint64(len(nodes))
    for g in range(n_nodes):
        x = np.uint64(nodes[g])
        _fill_weights(alpha, down, x, m, w, g)
        _copy(beta, np.uint64(left[x]), m_y, ones, g)
        _copy(beta, np.uint64(right[x]), m_z, others, g)
    for g in range(n_nodes, _full(n_nodes)):
        for h in range(_full(m)):
            w[g * _WIDE + h] = 0.0
    step = max(_1, _TILE // m_z)
    tile = _0
    for p in range(_0, m_y, step):
        last = min(p + step, m_y)
        for g in range(_0, n_nodes, _BLOCK):
            _fill_pairs(ones, others, g, p, last, m_z, pair)
        for h in range(_0, m, _BLOCK):
            for g in range(_0, n_nodes, _BLOCK):
                _add_sums(w, pair, g, (last - p) * m_z, h, sums, (tile + h) * _WIDE)
        tile += _full(m)


@part(fastmath=_FAST)
def _store_counts(sums, sizes, tensors, counts, first):
    """Store C * S of one rule in `counts`; `sums` holds the tiles of S."""
    m, m_y, m_z = sizes
    step = max(_1, _TILE // m_z)
    tile = _0
    for p in range(_0, m_y, step):
        n = (min(p + step, m_y) - p) * m_z
        for h in range(m):
            at, row = (tile + h) * _WIDE, first + (h * m_y + p) * m_z
            for i in range(n):
                counts[row + i] = sums[at + i] * tensors[row + i]
                sums[at + i] = 0.0
        tile += _full(m)


@kernel(fastmath=_FAST)
def rule_counts(
    nodes, groups, label, left, right, n_states, tensor_start, tensors, beta, down, alpha, counts
):
    """Fill `counts` with C * S for all rules.

    Parameters
    ----------
    nodes
        Phrase nodes grouped by rule.
    groups : [n_rules + 1]
        Offsets of the nodes of each rule in `nodes`.
    """
    width = np.uint64(beta.shape[1])
    ones, others, pair, w = _scratch(_CHUNK), _scratch(_CHUNK), _scratch(_CHUNK), _scratch(_CHUNK)
    n_tiles = width // max(_1, _TILE // width) + _1
    sums = _scratch(n_tiles * _full(width))  # sums of one rule; reset to zero after each rule
    for r in range(len(groups) - 1):
        first = np.uint64(tensor_start[r])
        if groups[r] == groups[r + 1]:
            for i in range(first, np.uint64(tensor_start[r + 1])):
                counts[i] = 0.0
            continue
        sizes = _sizes(np.uint64(nodes[groups[r]]), label, left, right, n_states)
        for start in range(groups[r], groups[r + 1], np.int64(_CHUNK)):
            chunk = nodes[start : min(start + np.int64(_CHUNK), groups[r + 1])]
            _add_chunk(chunk, left, right, sizes, beta, down, alpha, ones, others, pair, w, sums)
        _store_counts(sums, sizes, tensors, counts, first)


@kernel(fastmath=_FAST)
def leaf_sums(nodes, label, n_states, leaf, beta, alpha, sums):
    """Add alpha * beta of the leaves to `sums`, the expected states of each tag and word."""
    for place in range(len(nodes)):
        x = nodes[place]
        at = np.uint64(leaf[x])
        for h in range(np.uint64(n_states[label[x]])):
            sums[at + h] += alpha[x, h] * beta[x, h]


@kernel(fastmath=_FAST)
def merge_losses(label, pair_start, first, second, share, alpha, beta, loss):
    """Add to `loss` the log-likelihood lost by merging each pair of states of a label.

        loss[pair] -= log(1 - (a1 b1 + a2 b2) + (a1 + a2) (s1 b1 + s2 b2))

    with s the relative frequencies of the two states (Petrov et al. 2006).
    """
    for x in range(len(label)):
        for pair in range(pair_start[label[x]], pair_start[label[x] + 1]):
            one, two = first[pair], second[pair]
            a1, a2, b1, b2 = alpha[x, one], alpha[x, two], beta[x, one], beta[x, two]
            mean = share[pair] * b1 + (1.0 - share[pair]) * b2
            kept = 1.0 - (a1 * b1 + a2 * b2) + (a1 + a2) * mean
            loss[pair] -= np.log(max(kept, 1e-300))


@kernel
def heights_and_depths(offsets, left, right, parent):
    """Return the height above the leaves and the depth below the root of every node."""
    height, depth = np.zeros(len(left), np.int64), np.zeros(len(left), np.int64)
    for x in range(len(left)):
        if left[x] >= 0:
            height[x] = 1 + max(height[left[x]], height[right[x]])
    for back in range(len(left)):
        x = len(left) - 1 - back
        if parent[x] >= 0:
            depth[x] = depth[parent[x]] + 1
    return height, depth


@kernel(fastmath=_FAST)
def mix_states(start, state, n_states, row_size, before, amount, after, weights, out):
    """Scale the rows of each block [m, row_size], shrink them to their mean, and scale them again.

        out[h] = ((1 - amount) v[h] + amount mean(v)) / after[h],    v[h] = weights[h] / before[h]

    Parameters
    ----------
    start, state, n_states, row_size : [n_blocks]
        Offset of each block in `weights`, and its first state in `before` and `after`.
    """
    mean = np.empty(np.int64(_TILE))
    for block in range(len(start)):
        m, size = np.uint64(n_states[block]), np.uint64(row_size[block])
        at, one = np.uint64(start[block]), np.uint64(state[block])
        for tile in range(_0, size, _TILE):
            n = min(_TILE, size - tile)
            for i in range(n):
                mean[i] = 0.0
            for h in range(m if amount > 0.0 else _0):
                row, share = at + h * size + tile, amount / m / before[one + h]
                for i in range(n):
                    mean[i] += share * weights[row + i]
            for h in range(m):
                row, own = at + h * size + tile, (1.0 - amount) / before[one + h]
                last = 1.0 / after[one + h]
                for i in range(n):
                    out[row + i] = (own * weights[row + i] + mean[i]) * last
