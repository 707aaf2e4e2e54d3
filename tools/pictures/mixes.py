"""Drawings of mixes and networks: an audit, the encoder, how a mix decides, what each step wins."""

from __future__ import annotations

import re
from pathlib import Path

from tools.pictures.canvas import Canvas

import sapwood as sw

HOME = Path(__file__).resolve().parents[2]
AMBIGUOUS = "the young man ate the soup with a spoon in the kitchen ."


def audit() -> Canvas:
    """The steps of an audit, from folds to a ranked list."""
    canvas = Canvas(
        "An audit: folds, models of the other folds, suspected places, a ranked list", 800, 300
    )
    for fold in range(5):
        kind = "orange" if fold == 2 else "blue"
        canvas.box((20, 46 + fold * 42), (112, 34), kind, f"fold {fold + 1}")
    canvas.text(76, 30, "whole documents", "note")
    for fold in (0, 1, 3, 4):
        canvas.path([(134, 63 + fold * 42), (176, 100)], "line")
    canvas.box((178, 72), (136, 56), "blue", "models", "learnt from 4 folds")
    canvas.path([(134, 147), (176, 196)], "line")
    canvas.box((178, 168), (136, 56), "orange", "annotated trees", "of fold 3")
    canvas.arrow((316, 100), (366, 136))
    canvas.arrow((316, 196), (366, 160))
    canvas.box((368, 116), (136, 64), "plain", "differences", "tag, label, bracket")
    canvas.arrow((506, 148), (554, 148))
    canvas.box((556, 112), (102, 72), "green", "score", "logistic regression", "on signals")
    canvas.arrow((660, 148), (696, 148))
    for row, width in enumerate((84, 74, 62, 52, 40, 26)):
        canvas.box((698, 88 + row * 22), (width, 16), "red")
    canvas.text(740, 76, "ranked list", "strong")
    canvas.box((540, 226), (134, 44), "plain", "planted errors", "in copies of the trees")
    canvas.arrow((607, 224), (607, 188))
    canvas.text(340, 286, "every fold is judged by models that have not seen it", "note")
    return canvas


def encoder() -> Canvas:
    """The layers of the network, from words to tags, heads and spans."""
    words = ("she", "saw", "old", "Rome")
    canvas = Canvas("The network reads the sentence from both ends, twice", 700, 400)
    step, left = 120, 40
    for column, word in enumerate(words):
        x = left + column * step
        canvas.text(x + 46, 386, word, "strong")
        canvas.box((x, 330), (92, 38), "plain", "word + forms")
        for y, name, kind in ((250, "LSTM ⇄", "blue"), (120, "LSTM ⇄", "blue")):
            canvas.box((x, y), (92, 38), kind, name)
        canvas.arrow((x + 46, 329), (x + 46, 290))
        canvas.box((x + 10, 186), (72, 34), "orange", "tag")
        canvas.arrow((x + 46, 249), (x + 46, 222))
        canvas.arrow((x + 46, 185), (x + 46, 160))
        if column:
            for y in (262, 132):
                canvas.arrow((x - 27, y), (x - 2, y))
                canvas.arrow((x - 2, y + 14), (x - 27, y + 14))
        canvas.arrow((x + 46, 119), (x + 46, 84))
    canvas.box((left, 40), (208, 42), "green", "heads", "a third layer, then arcs")
    canvas.box((left + 2 * step, 40), (212, 42), "green", "spans", "difference of two fenceposts")
    for y, name in (
        (350, "vector of the word, and of"),
        (270, "first layer: 200 each way"),
        (206, "posterior of the tag"),
        (140, "second layer: 200 each way"),
    ):
        canvas.text(525, y, name, "left small")
    canvas.text(525, 366, "12 affixes and shapes", "left small")
    return canvas


def ensemble() -> Canvas:
    """Posteriors of the brackets of an ambiguous sentence, by three grammars and by their mean."""
    train = sw.bundled_treebank("train")
    members = {
        "spectral": sw.SpectralLPCFG(8).fit(train).model_,
        "EM": sw.EMLPCFG(8).fit(train).model_,
        "clusters": sw.ClusterLPCFG(8).fit(train).model_,
    }
    models = {**members, "mean": sw.Ensemble.of([*members.values()])}
    words = AMBIGUOUS.split()
    found = {name: _posteriors(model, words) for name, model in models.items()}
    brackets = sorted(
        {b for table in found.values() for b, p in table.items() if 0.05 < p < 0.97},
        key=lambda b: (b[1] - b[2], b[1]),
    )
    tree = {tuple(span) for span in sw.Parser(models["mean"]).parse(words).tree.spans()}
    canvas = Canvas(
        "How a mix decides: the mean of the members' posteriors", 760, 70 + 32 * len(brackets) + 40
    )
    canvas.text(380, 22, AMBIGUOUS, "strong")
    for column, name in enumerate(found):
        canvas.text(330 + column * 96, 52, name, "strong" if name == "mean" else "note")
    canvas.text(712, 52, "in the tree", "note")
    for row, bracket in enumerate(brackets):
        label, start, end = bracket
        y = 64 + row * 32
        said = " ".join(words[start:end])
        said = (
            said if len(said) < 34 else f"{' '.join(words[start : start + 2])} … {words[end - 1]}"
        )
        canvas.text(270, y + 17, f"{label}: {said}", "right small")
        for column, (name, table) in enumerate(found.items()):
            p = table.get(bracket, 0.0)
            x = 290 + column * 96
            canvas.box((x, y + 4), (80, 18), "plain")
            if p > 0.005:
                canvas.box((x, y + 4), (80 * p, 18), "orange" if name == "mean" else "blue")
            canvas.text(x + 40, y + 17, f"{p:.2f}", "small")
        if bracket in tree:
            canvas.text(712, y + 18, "yes", "strong")
        else:
            canvas.text(712, y + 18, "no", "note")
    canvas.text(
        380,
        64 + 32 * len(brackets) + 22,
        "brackets in doubt only; three grammars of 8 states, learnt from the 3,000 bundled trees",
        "small",
    )
    return canvas


def _posteriors(
    model: sw.LatentGrammar | sw.Ensemble, words: list[str]
) -> dict[tuple[str, int, int], float]:
    parse = sw.Parser(model).parse(words)
    return {
        (c.label, c.start, c.end): c.probability for c in parse.marginals if c.end - c.start > 1
    }


def ladder() -> Canvas:
    """Gains of the steps from one grammar to the mix, drawn from the table beside the page."""
    page = (HOME / "docs" / "concepts" / "second-stage-tables.md").read_text(encoding="utf-8")
    shown = {
        "spectral 16 alone": "spectral grammar alone",
        "three grammars, in the first one's chart": "three grammars",
        "four grammars, among all trees": "four grammars, all trees",
        "a network alone": "network alone",
        "among all trees, network 0.35": "four grammars and a network",
        "four grammars, two networks 0.5": "four grammars, two networks",
    }
    row = re.compile(
        r"^\| ([^|]+) \| ([\d.]+) \| [^|]+ \| (-?\+?[\d.]+) to ([-+\d.]+) \|", re.MULTILINE
    )
    first_table = page.partition("| spectral 16 alone")[2].partition("\n\n")[0]
    rows = {m[1]: m for m in row.finditer("| spectral 16 alone" + first_table)}
    base = float(rows["three grammars, in the first one's chart"][2])
    canvas = Canvas(
        "F1 of each step of the mix, with intervals of the gain", 720, 60 + 40 * len(shown) + 40
    )
    left, right = 260.0, 690.0

    def place(f1: float) -> float:
        return left + (f1 - 82) / 7 * (right - left)

    for mark in range(82, 90):
        canvas.path([(place(mark), 40), (place(mark), 50 + 40 * len(shown))], "faint")
        canvas.text(place(mark), 68 + 40 * len(shown), str(mark), "small")
    canvas.text((left + right) / 2, 24, "F1, five folds of the Penn sample's train part", "note")
    for at, (name, label) in enumerate(shown.items()):
        y = 66 + at * 40
        f1, low, high = (float(rows[name][column]) for column in (2, 3, 4))
        canvas.text(left - 14, y + 4, label, "right")
        canvas.path([(place(base + low), y), (place(base + high), y)], "blue-line")
        canvas.dot((place(f1), y), "blue-ink", 5)
        canvas.text(place(f1), y - 10, f"{f1:.2f}", "small")
    return canvas
