"""Drawings of trees: notation, scores, binarisation, tensors, prefixes, features of spans."""

from __future__ import annotations

from tools.pictures.canvas import Canvas, draw_tree, parse_tree

import sapwood as sw


def notation() -> Canvas:
    """Fenceposts, a span, and the inside and outside trees of its node."""
    canvas = Canvas("A node cuts a tree into its inside tree and its outside tree", 560, 330)
    tree = parse_tree("(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT a) (NN cat))))")
    canvas.parts.append('<rect class="green" x="288" y="118" width="166" height="142" rx="8"/>')
    draw_tree(canvas, tree, (70, 30), step=76, rise=54)
    for post in range(6):
        x = 70 + post * 76
        canvas.path([(x, 262), (x, 272)], "line")
        canvas.text(x, 288, str(post), "small")
    canvas.path([(298, 300), (450, 300)], "green-line")
    canvas.text(374, 318, "span [3, 5): the two words from fencepost 3 to 5", "small")
    canvas.text(478, 150, "inside tree", "left small")
    canvas.text(478, 166, "of the NP", "left small")
    canvas.text(300, 30, "all the rest is its outside tree", "left small")
    return canvas


def evaluation() -> Canvas:
    """Gold and predicted brackets of one sentence, matched."""
    words = ["the", "girl", "saw", "the", "boy", "with", "the", "telescope"]
    gold = [("S", 0, 8), ("NP", 0, 2), ("VP", 2, 8), ("NP", 3, 5), ("PP", 5, 8), ("NP", 6, 8)]
    given = [*gold, ("NP", 3, 8)]
    step, left = 74, 96
    canvas = Canvas(
        "Brackets that both trees have are correct; others are missing or extra", 700, 330
    )
    for column, word in enumerate(words):
        canvas.text(left + (column + 0.5) * step, 30, word, "strong")
    rows = sorted(set(gold) | set(given), key=lambda b: (b[1] - b[2], b[1]))
    for row, (label, start, end) in enumerate(rows):
        both = (label, start, end) in gold and (label, start, end) in given
        kind = "green" if both else "red"
        y = 48 + row * 30
        at, size = (left + start * step + 3, y), ((end - start) * step - 6, 24)
        canvas.box(at, size, kind, label)
        said = "in both" if both else "extra: predicted only"
        canvas.text(left - 8, y + 17, said.split(":", maxsplit=1)[0], "small right")
    correct = len(set(gold) & set(given))
    canvas.text(
        350,
        48 + len(rows) * 30 + 24,
        f"{correct} correct of {len(gold)} gold and {len(given)} predicted brackets",
    )
    recall, precision = correct / len(gold), correct / len(given)
    f1 = 200 * correct / (len(gold) + len(given))
    canvas.text(
        350,
        48 + len(rows) * 30 + 44,
        f"recall {100 * recall:.1f}, precision {100 * precision:.1f}, F1 {f1:.1f}",
        "note",
    )
    return canvas


def binarisation() -> Canvas:
    """A treebank tree and the binary tree with joint labels that the model sees."""
    canvas = Canvas("A tree of the treebank and the binary tree that a grammar sees", 760, 350)
    before = "(S (NP (PRP she)) (VP (VBD gave) (NP (DT a) (NN talk)) (PP (IN in) (NP (NNP Rome)))))"
    after = _binary(before)
    canvas.text(170, 22, "in the treebank", "strong")
    draw_tree(canvas, parse_tree(before), (10, 50), step=54, rise=52)
    canvas.arrow((352, 150), (396, 150))
    canvas.text(560, 22, "in the model", "strong")
    draw_tree(canvas, parse_tree(after), (400, 50), step=58, rise=52)
    note = (
        "NP|PRP joins a unary chain; @VP:>NP is a part of a VP, which produces the NP on its right"
    )
    canvas.text(500, 338, note, "small")
    return canvas


def _binary(tree: str) -> str:
    """The binary tree of the project's own transform, in brackets."""
    from sapwood.constituency.data.treebank import Treebank

    bank = Treebank.from_trees([sw.Tree.parse(tree)])
    done: list[str] = []
    for label, left, right, word in zip(
        bank.label.tolist(),
        bank.left.tolist(),
        bank.right.tolist(),
        bank.word.tolist(),
        strict=True,
    ):
        inside = bank.inventory.words[word] if word >= 0 else f"{done[left]} {done[right]}"
        done.append(f"({bank.inventory.symbols[label]} {inside})")
    return done[-1].replace("TOP|", "")


def tensor_form() -> Canvas:
    """Vectors go up through a tensor; a change of basis cancels at every edge."""
    canvas = Canvas("A rule is a tensor: it takes two inside vectors to one", 640, 270)
    canvas.box((255, 90), (130, 56), "blue", "C[a → b c]", "m(a) by m(b) by m(c)")
    for x, name, word in ((120, "b", "dogs"), (520, "c", "bark")):
        canvas.box((x - 60, 196), (120, 46), "green", f"c_inf[{name} → {word}]", "emission vector")
        canvas.arrow((x + (30 if x < 300 else -30), 194), (286 if x < 300 else 354, 150))
    canvas.text(150, 168, "inside vector of b", "small")
    canvas.text(500, 168, "inside vector of c", "small")
    canvas.arrow((320, 88), (320, 56))
    canvas.text(334, 78, "inside vector of a", "small left")
    canvas.box((260, 10), (120, 44), "orange", "c_1[a]", "root vector")
    canvas.text(120, 60, "on every edge a basis", "note")
    canvas.text(120, 77, "change cancels:", "note")
    canvas.text(120, 96, "(β G⁻¹) (G α) = β α", "")  # noqa: RUF001
    return canvas


def prefixes() -> Canvas:
    """Surprisal as the steps of the prefix probability, for a sentence of the bundled grammar."""
    words = ["the", "dog", "that", "saw", "the", "man", "sleeps", "."]
    found = sw.surprisal(sw.bundled_grammar(), words)
    bits = [float(value) for value in found.surprisal[: len(words)]]
    step, left, base, unit = 76, 66, 300, 5.6
    canvas = Canvas("The surprisal of a word is the step of -log P of the prefix", 700, 350)
    total = 0.0
    for mark in (0, 10, 20, 30, 40):
        y = base - mark * unit
        canvas.path([(left, y), (left + len(words) * step, y)], "faint")
        canvas.text(left - 8, y + 4, str(mark), "small right")
    for column, (word, value) in enumerate(zip(words, bits, strict=True)):
        x = left + column * step
        canvas.box((x + 8, base - (total + value) * unit), (step - 16, value * unit), "blue")
        canvas.path([(x, base - total * unit), (x + 8, base - total * unit)], "dash")
        total += value
        canvas.text(x + step / 2, base - total * unit - 6, f"{value:.1f}", "small blue-ink")
        canvas.path([(x + step - 8, base - total * unit), (x + step, base - total * unit)], "dash")
        canvas.text(x + step / 2, base + 20, word, "strong")
    canvas.text(
        left + 4,
        22,
        "bits of the prefix, -log₂ P(w₁ … wₖ); each step is the surprisal of one word",
        "left note",
    )
    canvas.text(
        left + len(words) * step, base + 42, f"P(the whole prefix) = 2^-{total:.1f}", "small right"
    )
    return canvas


def span_features() -> Canvas:
    """The words that features of one span look at."""
    words = ["she", "saw", "the", "old", "house", "in", "Rome", "."]
    start, end, step, left = 2, 5, 82, 20
    kinds = {start - 1: "plain", start: "blue", end - 1: "blue", end: "plain"}
    notes = {
        start - 1: "word before",
        start: "first word",
        end - 1: "last word",
        end: "word behind",
    }
    canvas = Canvas("The words that features of the span NP [2, 5) look at", 700, 230)
    canvas.path(
        [
            (left + start * step, 72),
            (left + start * step, 62),
            (left + end * step, 62),
            (left + end * step, 72),
        ],
        "green-line",
    )
    canvas.text(left + (start + end) / 2 * step, 50, "NP, 3 words, shapes xxx xxx xxxxx", "strong")
    for column, word in enumerate(words):
        x = left + column * step
        if column in kinds:
            canvas.box((x + 4, 80), (step - 8, 34), kinds[column], word)
            canvas.text(x + step / 2, 132, notes[column], "small")
        else:
            canvas.text(x + step / 2, 102, word)
    canvas.text(
        350,
        172,
        "score of the span  =  w[NP, first = the] + w[NP, last = house] + w[NP, before = saw] + …",
    )
    canvas.text(350, 196, "each feature goes through a hash to one of 2²² weights", "note")
    return canvas
