"""Make the pictures of docs/help/gallery.md and the first one of the README, from bundled data.

.venv/bin/python tools/gallery.py            all of them, in a minute
.venv/bin/python tools/gallery.py states     one of them
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import sapwood as sw
from sapwood.cli.plots import plot_f1, plot_reliability, plot_spectrum

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images" / "gallery"
SENTENCE = "the young man with a hat ate the soup with a spoon ."
SURE = 0.75  # a state is shown where its posterior probability is at least this
NAMED = (("PP", 0), ("NN", 3), ("PP", 7), ("NN", 2))  # states in the caption of the README
DIGITS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def states(folder: Path) -> None:
    """A parse with the hidden states of its nodes, by a grammar that learnt them from trees.

    The trees are 10,000 samples of the hand-written grammar, stripped of its hidden states. The
    same grammar is learnt on the command line by

        sapwood sample bundled -n 10000 > trees.mrg
        sapwood train trees.mrg -o states.sapwood --method cluster --states 16
    """
    from sapwood.constituency.parse.node_states import states_in_trees
    from sapwood.constituency.parse.state_vectors import StateVectors

    bank = sw.Treebank.from_trees(sw.bundled_grammar().sample(10_000, seed=0))
    grammar = sw.ClusterLPCFG(16).fit(bank).model_
    tree = sw.Parser(grammar).parse(SENTENCE.split()).tree
    found = next(states_in_trees(StateVectors(grammar), [tree]))
    spans = iter(tree.spans())

    def with_state(node: sw.Tree) -> sw.Tree:
        label, start, end = next(spans)
        at = found.get((start, end))
        if node is not tree and at is not None and at.shares.max() >= SURE:
            label += str(int(at.shares.argmax())).translate(DIGITS)
        return sw.Tree(label, node.word if node.is_preterminal else [*map(with_state, node)])

    (folder / "states.svg").write_text(with_state(tree).svg(), encoding="utf-8")
    print_states(grammar)


def print_states(grammar: sw.LatentGrammar) -> None:
    """What the states that the caption in the README names stand for."""
    from sapwood.constituency.report.states import StateAtlas

    atlas = StateAtlas(grammar, top=4)
    for symbol, state in NAMED:
        card = atlas.card(symbol, state)
        words = ", ".join(
            f"{row['word']} {row['probability']:.2f}" for row in card.get("words", [])
        )
        places = ", ".join(
            f"{row['context']} {row['probability']:.2f}" for row in card["contexts"][:2]
        )
        print(f"{symbol} {state}: {words or 'phrases'}; stands in {places}")


def arcs(folder: Path) -> None:
    """A dependency tree."""
    rows = (
        ("the", 2, "det", "DET"), ("girl", 3, "nsubj", "NOUN"), ("saw", 0, "root", "VERB"),
        ("a", 5, "det", "DET"), ("dog", 3, "obj", "NOUN"), ("in", 8, "case", "ADP"),
        ("the", 8, "det", "DET"), ("garden", 3, "obl", "NOUN"),
    )  # fmt: skip
    words, heads, relations, tags = map(list, zip(*rows, strict=True))
    from sapwood.dependency.data.draw import draw_svg

    drawing = draw_svg(sw.Arcs(words, heads, relations=relations, upos=tags))
    (folder / "arcs.svg").write_text(drawing, encoding="utf-8")


def spectrum(folder: Path) -> None:
    """Singular values of the commonest labels, and how many are states."""
    from sapwood.report import inspect_spectrum

    model = sw.SpectralLPCFG(16).fit(sw.bundled_treebank("train")).model_
    plot_spectrum(folder / "spectrum.svg", inspect_spectrum(model)["spectrum"][:6])


def f1(folder: Path) -> None:
    """F1 against the number of states, spectral and EM, on the bundled treebank."""
    from sapwood.report import comparison_row

    bank, dev = sw.bundled_treebank("train"), list(sw.bundled_treebank("dev"))
    runs = [("pcfg", 1)] + [(method, m) for method in ("spectral", "em") for m in (2, 4, 8, 16)]
    rows = [comparison_row(method, bank, dev, states=m) for method, m in runs]
    plot_f1(folder / "f1.svg", rows, has_states=[method != "pcfg" for method, _ in runs])


def reliability(folder: Path) -> None:
    """How far posteriors can be believed, on bundled dev trees."""
    from dataclasses import asdict

    parser = sw.Parser(sw.SpectralLPCFG(8).fit(sw.bundled_treebank("train")).model_)
    grades: list[tuple[float, bool]] = []
    for gold in sw.bundled_treebank("dev"):
        parse = parser.parse(gold.words())
        nodes = zip(parse.tree.nodes(), parse.tree.spans(), strict=True)
        phrases = {span for node, span in nodes if not node.is_preterminal}
        grades += sw.evaluate.graded(gold, [c for c in parse.marginals if c[:3] in phrases])
    found = sw.evaluate.calibration(*zip(*grades, strict=True))
    plot_reliability(folder / "reliability.svg", asdict(found))


PICTURES: dict[str, Callable[[Path], None]] = {
    made.__name__: made for made in (states, arcs, spectrum, f1, reliability)
}

if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name](FOLDER)
        print(FOLDER / f"{name}.svg")
