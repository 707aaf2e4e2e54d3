"""Drawings of dependencies, identifiability, unmixing and weighted grammars."""

from __future__ import annotations

import numpy as np
from tools.pictures.canvas import Canvas

import sapwood as sw

LIKELY = 0.2  # states are drawn for a word where they have at least this probability


def dependencies() -> Canvas:
    """A dependency tree whose words have hidden states."""
    words = ("the", "dog", "barks", "loudly")
    heads = (2, 3, 0, 3)
    canvas = Canvas(
        "Every word has a hidden state; a state depends on the state of the head", 640, 330
    )
    x = [100 + 140 * n for n in range(4)]
    for n, word in enumerate(words):
        canvas.dot((x[n], 190), "blue", 22)
        canvas.text(x[n], 195, f"h{'₁₂₃₄'[n]}", "strong")
        canvas.arrow((x[n], 213), (x[n], 262))
        canvas.text(x[n] + 10, 242, "O", "note left")
        canvas.box((x[n] - 44, 264), (88, 36), "green", word)
        if heads[n]:
            start, end = x[heads[n] - 1], x[n]
            lift = 0.42 * abs(end - start)
            canvas.curve((start, 164), (end, 164), lift)
            canvas.tip((end, 166), (0, 1))
            side = "T_L" if end < start else "T_R"
            canvas.text((start + end) / 2, 164 - 0.75 * lift - 8, side, "note")
    canvas.arrow((x[2], 40), (x[2], 164))
    canvas.text(x[2] + 10, 54, "root: π", "note left")
    canvas.text(
        320,
        322,
        "words and arcs are seen; T gives a state from that of its head, O a word from its state",
        "small",
    )
    return canvas


def identifiability() -> Canvas:
    """Rank of the Jacobian against the number of parameters, computed exactly."""
    from sapwood import identify

    canvas = Canvas(
        "Identifiable: the moments fix as many directions as there are parameters", 700, 330
    )
    base, unit, left = 240, 18, 90
    groups = [("pairs", length) for length in (2, 3, 4)] + [
        ("triples", length) for length in (2, 3, 4)
    ]
    parameters = 0
    for column, (moments, length) in enumerate(groups):
        found = identify.check("pcfg-i", words=3, states=2, length=length, moments=moments)
        parameters = found.parameters
        x = left + column * 90 + (30 if column > 2 else 0)
        kind = "green" if found.rank == parameters else "red"
        canvas.box((x, base - found.rank * unit), (62, found.rank * unit), kind)
        canvas.text(x + 31, base - found.rank * unit - 6, f"rank {found.rank}", "small")
        canvas.text(x + 31, base + 18, f"L = {length}", "small")
        missing = parameters - found.rank
        said = "identifiable" if not missing else f"{missing} not seen"
        canvas.text(x + 31, base + 36, said, "small green-ink" if not missing else "small red-ink")
    y = base - parameters * unit
    canvas.path([(left - 20, y), (650, y)], "dash")
    canvas.text(left - 24, y + 4, f"{parameters}", "right strong")
    canvas.text(350, 28, f"PCFG-I with 3 words and 2 states has {parameters} parameters", "note")
    canvas.text(left + 120, base + 66, "all pairs of positions", "strong")
    canvas.text(left + 420, base + 66, "all triples of positions", "strong")
    canvas.text(
        350,
        324,
        "bars: exact rank of the Jacobian of the moments; L is the length of the sentences",
        "small",
    )
    return canvas


def unmixing() -> Canvas:
    """The two binary trees over three words, and the moments that mix them."""
    canvas = Canvas("A moment of the words is a mixture over the trees that nobody sees", 700, 330)
    for tree, (x0, shape) in enumerate(((40, "left"), (260, "right"))):
        leaves = [x0 + 20 + 60 * n for n in range(3)]
        y = 170
        inner = (leaves[0] + leaves[1]) / 2 if shape == "left" else (leaves[1] + leaves[2]) / 2
        pair = leaves[:2] if shape == "left" else leaves[1:]
        alone = leaves[2] if shape == "left" else leaves[0]
        top = (inner + alone) / 2
        for end in pair:
            canvas.path([(inner, 110), (end, y - 14)])
        canvas.path([(top, 62), (inner, 110)])
        canvas.path([(top, 62), (alone, y - 14)])
        for n, leaf in enumerate(leaves):
            canvas.text(leaf, y, f"x{'₁₂₃'[n]}", "strong")
        canvas.text(x0 + 80, 40, f"tree {tree + 1}", "note")
        canvas.text(x0 + 80, 204, "probability ½", "small")
    canvas.text(230, 120, "+")
    canvas.arrow((450, 120), (494, 120))
    canvas.box((496, 88), (190, 64), "plain", "moments of the words", "μ₁₂₃, μ₁₃₂, μ₂₃₁")
    canvas.arrow((590, 154), (590, 216))
    canvas.text(604, 184, "row of M⁻¹", "small left")
    canvas.box(
        (470, 218), (216, 64), "green", "Ψ = μ₁₂₃ + μ₁₃₂ - μ₂₃₁", "as if every tree were the same"
    )
    canvas.arrow((468, 250), (414, 250))
    canvas.box((232, 226), (180, 56), "blue", "eigenvectors", "π, T and O in closed form")
    canvas.text(
        350,
        316,
        "M, the share of the trees under which a moment is each Ψ, is known in advance",
        "small",
    )
    return canvas


def hankel() -> Canvas:
    """A Hankel block of the Dyck language: contexts by inside strings, cells shaded by weight."""
    from benchmarks.papers.targets import dyck

    grammar = dyck()
    insides = ["ab", "aabb", "abab", "a", "b", "aab", "abb"]
    contexts = [("", ""), ("a", "b"), ("", "ab"), ("ab", ""), ("a", ""), ("", "b")]
    cells = np.array([[grammar.value([*x, *y, *z]) for y in insides] for x, z in contexts])
    step, row, left, top = 72, 38, 150, 70
    canvas = Canvas("A Hankel matrix: weights of strings by context and inside string", 700, 350)
    canvas.text(left + step * len(insides) / 2, 26, "inside string y", "note")
    canvas.text(left - 70, top - 14, "context ⟨x; z⟩", "note")
    for column, y in enumerate(insides):
        canvas.text(left + (column + 0.5) * step, 54, y, "strong")
    for at, (x, z) in enumerate(contexts):
        canvas.text(left - 14, top + at * row + 24, f"⟨{x}; {z}⟩", "right")
        for column, value in enumerate(cells[at].tolist()):
            kind = "plain" if value == 0 else "blue"
            said = "0" if value == 0 else f"{value:.3f}".rstrip("0")
            canvas.box((left + column * step + 2, top + at * row), (step - 4, row - 4), kind, said)
    rank = int(np.linalg.matrix_rank(cells))
    end = top + len(contexts) * row
    canvas.text(
        350,
        end + 22,
        "each cell is the weight of the string x y z under the grammar of balanced brackets",
    )
    canvas.text(
        350,
        end + 44,
        f"this block has rank {rank}, the number of states of the grammar",
        "small",
    )
    return canvas


def word_states() -> Canvas:
    """Hidden states between two words, learnt from the bundled sentences."""
    sentences = [tree.words() for tree in sw.bundled_treebank("train").trees()]
    model = sw.EMBigram(8).fit(sentences).model_
    given = ("the", "in", "can")
    canvas = Canvas("A hidden state stands between a word and the next one", 760, 400)
    places: dict[int, int] = {}
    for at, word in enumerate(given):
        row = model.words.index(word)
        canvas.box((20, 54 + at * 84), (110, 44), "green", word, "word x")
        for h in np.flatnonzero(model.r[row] >= LIKELY).tolist():
            y = 76 + 62 * places.setdefault(h, len(places))
            canvas.arrow((132, 76 + at * 84), (286, y))
            canvas.text(272, y - 8, f"{model.r[row, h]:.2f}", "small right")
    for h, place in places.items():
        y = 54 + place * 62
        canvas.box((288, y), (90, 44), "blue", f"state {place + 1}")
        likely = np.argsort(-model.s[:, h])[:4].tolist()
        words = ", ".join(f"{model.words[w]} {model.s[w, h]:.2f}" for w in likely)
        canvas.arrow((380, y + 22), (424, y + 22))
        canvas.text(432, y + 26, words, "left")
    canvas.text(200, 24, "r(h | x)", "note")
    canvas.text(560, 24, "s(y | h): the likeliest next words", "note")
    canvas.text(
        380,
        386,
        "learnt by EM from the bundled sentences, 8 states; drawn where r is at least 0.2",
        "small",
    )
    return canvas


def annotation() -> Canvas:
    """The loop of annotation: an accepted tree adds counts, the grammar suggests the next."""
    canvas = Canvas("Annotation as a loop: accepted trees teach the parser that suggests", 720, 290)
    boxes = (
        ((40, 110), "orange", "a sentence", "the most useful next"),
        ((270, 30), "blue", "suggested tree", "with posteriors"),
        ((500, 110), "green", "accepted tree", "corrected by people"),
        ((270, 190), "plain", "sum of counts", "add and remove, exactly"),
    )
    for corner, kind, name, what in boxes:
        canvas.box(corner, (180, 62), kind, name, what)
    canvas.arrow((170, 108), (268, 72))
    canvas.arrow((452, 72), (550, 108))
    canvas.arrow((550, 174), (452, 212))
    canvas.arrow((268, 212), (170, 174))
    canvas.text(190, 78, "parse", "small")
    canvas.text(534, 78, "read, correct", "small")
    canvas.text(540, 212, "add its counts", "small")
    canvas.text(180, 212, "learn, choose", "small")
    canvas.text(
        360, 280, "a replaced tree is subtracted, so the order of the trees does not matter", "note"
    )
    return canvas
