"""Drawings of learners: singular values, EM, clusters and pivots."""

from __future__ import annotations

import itertools

import numpy as np
from tools.pictures.canvas import Canvas, Point

import sapwood as sw


def spectral() -> Canvas:
    """Features of inside and outside trees, and the singular values of bundled NPs."""
    from sapwood.report import inspect_spectrum

    model = sw.SpectralLPCFG(8).fit(sw.bundled_treebank("train")).model_
    values = next(
        row["singular_values"]
        for row in inspect_spectrum(model)["spectrum"]
        if row["symbol"] == "NP"
    )
    canvas = Canvas("How a spectral grammar is learnt", 800, 290)
    steps = (
        ("green", "inside features φ", "words and rules below"),
        ("orange", "outside features ψ", "rules and words around"),
    )
    for row, (kind, name, what) in enumerate(steps):
        canvas.box((20, 60 + row * 110), (150, 56), kind, name, what)
        canvas.arrow((172, 88 + row * 110), (228, 122 + row * 44))
    canvas.text(95, 40, "every NP of the treebank", "note")
    canvas.box((230, 112), (120, 64), "plain", "Ω = E[φ ψ' | NP]", "one matrix per label")
    canvas.arrow((352, 144), (398, 144))
    canvas.text(375, 134, "SVD", "small")
    _bars(canvas, (402, 214), values, 19, "singular values of NP")
    canvas.arrow((600, 144), (644, 144))
    canvas.box(
        (646, 92),
        (140, 104),
        "blue",
        "grammar",
        "project: y = U'φ, z = V'ψ",
        "average over nodes",
        "tensors C, c_inf, c_1",
    )
    canvas.text(498, 250, "each large value is a direction that hidden states need", "small")
    canvas.text(498, 268, "learnt from the 3,000 bundled trees", "small")
    return canvas


def _bars(canvas: Canvas, corner: Point, values: list[float], step: float, title: str) -> None:
    """Bars of values above a base line."""
    x0, base = corner
    canvas.text(x0 + step * len(values) / 2 + 16, base - 150, title, "note")
    for column, value in enumerate(values):
        height = 130 * value / values[0]
        canvas.box((x0 + 16 + column * step, base - height), (step - 6, height), "blue")
        if column < 3:
            canvas.text(x0 + 16 + (column + 0.4) * step, base - height - 5, f"{value:.1f}", "small")
    canvas.path([(x0 + 10, base), (x0 + 22 + step * len(values), base)])


def em() -> Canvas:
    """The log-likelihood of the bundled trees at each iteration of EM, with its splits."""
    info = sw.EMLPCFG(8, iterations=12).fit(sw.bundled_treebank("train")).info_
    n_trees = len(sw.bundled_treebank("train"))
    values = [value / n_trees for value in info.log_likelihoods]
    states = list(info.states)
    canvas = Canvas(
        "EM on the bundled trees: the likelihood never falls while states are fixed", 760, 320
    )
    low, high = min(values), max(values)
    left, right, top, base = 80.0, 730.0, 70.0, 250.0

    def place(n: int) -> Point:
        x = left + (n + 0.5) * (right - left) / len(values)
        return x, base - (values[n] - low) / (high - low) * (base - top)

    for mark in np.linspace(low, high, 4):
        y = base - (mark - low) / (high - low) * (base - top)
        canvas.path([(left, y), (right, y)], "faint")
        canvas.text(left - 8, y + 4, f"{mark:.1f}", "small right")
    splits = [0, *(n for n in range(1, len(states)) if states[n] != states[n - 1]), len(states)]
    for start, end in itertools.pairwise(splits):
        middle = (place(start)[0] + place(end - 1)[0]) / 2
        canvas.text(middle, base + 38, f"{states[start]} states a label", "strong")
        if start:
            x = (place(start)[0] + place(start - 1)[0]) / 2
            canvas.path([(x, top - 14), (x, base + 44)], "dash")
            canvas.text(x, top - 20, "every state is split in two", "small")
    canvas.path([place(n) for n in range(len(values))], "blue-line")
    for n in range(len(values)):
        canvas.dot(place(n), "blue-ink", 3)
    canvas.text(left, 18, "log-likelihood of a bundled tree, on average, by iteration", "note left")
    canvas.text(left, base + 62, "each dot is one E-step and one M-step", "small left")
    return canvas


def clusters() -> Canvas:
    """Projected nodes of the label NP, in the states that k-means gave them."""
    from scipy.cluster.vq import vq

    from sapwood.constituency.learn.cluster import NodeSample, find_centres
    from sapwood.constituency.learn.features import project_nodes
    from sapwood.constituency.learn.pcfg import PLAIN
    from sapwood.execute import Threads

    data = PLAIN.prepare(sw.bundled_treebank("dev"), Threads(1))
    projection = project_nodes(data, 4)
    names = [str(symbol) for symbol in data.inventory.symbols]
    label = names.index("NP")
    m = np.ones(len(names), np.int64)
    m[label] = 4
    stride = np.where(np.arange(len(names)) == label, 1, 0)
    rows = data.engine.total(
        NodeSample.of, projection.features.rows, projection.vectors, stride
    ).rows
    states = vq(rows, find_centres(data, projection, m, 0)[label])[0]
    centred = rows - rows.mean(axis=0)
    plane = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    canvas = Canvas("The nodes labelled NP of 300 trees, in four clusters", 560, 380)
    low, high = plane.min(axis=0), plane.max(axis=0)
    kinds = ("blue-ink", "orange-ink", "green-ink", "red-ink")
    for (u, v), state in zip((plane - low) / (high - low), states.tolist(), strict=True):
        canvas.dot((40 + 480 * u, 320 - 270 * v), kinds[state], 2.6)
    canvas.text(280, 24, "every dot is a node labelled NP; every colour is a hidden state", "note")
    canvas.text(
        280, 352, "two main directions of the vectors y (below the node) and z (around it)", "small"
    )
    canvas.text(280, 370, "ClusterLPCFG, four states, the 300 bundled dev trees", "small")
    return canvas


def pivots() -> Canvas:
    """Features as mixtures of three states: the pivots are the corners, found from samples."""
    from sapwood.linalg.pivots import find_anchors

    rng = np.random.default_rng(4)
    n_features = 40
    weights = rng.dirichlet([0.8, 0.8, 0.8], n_features)
    weights[:3] = np.eye(3)
    corners = np.array([[60.0, 290.0], [300.0, 40.0], [540.0, 290.0]])
    noise = rng.normal(0, 4, (n_features, 2))
    points = weights @ corners + noise
    canvas = Canvas("Pivot features are the corners of the cloud of all features", 600, 350)
    picked = find_anchors(points, 3).tolist()
    canvas.path([tuple(points[at]) for at in [*picked, picked[0]]], "dash")
    for at, (x, y) in enumerate(points):
        if at not in picked:
            canvas.dot((x, y), "blue-ink", 3.4)
    for state, at in enumerate(picked):
        x, y = points[at]
        canvas.dot((x, y), "orange-ink", 6)
        side = "left" if x > 400 else "right" if x < 200 else ""
        canvas.text(
            x,
            y + (22 if y > 200 else -12),
            f"pivot of state {state + 1}",
            f"strong {side if y < 200 else ''}",
        )
    canvas.text(
        300, 336, "every dot is a feature f; its place between the corners is p(state | f)", "note"
    )
    return canvas
