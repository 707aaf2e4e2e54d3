"""Make the pictures of docs/help/gallery.md and the first one of the README, from bundled data.

.venv/bin/python tools/gallery.py            all of them, in a minute
.venv/bin/python tools/gallery.py states     one of them
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import sapwood as sw
from sapwood.cli.reports import plot_f1, plot_reliability, plot_spectrum

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images" / "gallery"
SENTENCE = "the young man with a hat ate the soup with a spoon ."
SURE = 0.75  # a state is shown where its posterior probability is at least this
NAMED = (("PP", 0), ("NN", 3), ("PP", 7), ("NN", 2))  # states in the caption of the README
RELATIVE_CLAUSES = ("the dog that saw the man sleeps .", "the dog that the man saw sleeps .")
BARS = """
text { font: 13px system-ui, sans-serif; fill: #1d2129; text-anchor: middle }
.scale { font-size: 11px; fill: #5a6270; text-anchor: end }
.grid { stroke: #5a6270; stroke-opacity: 0.3 }
.paper { fill: #ffffff } .syntactic { fill: #3568b8 } .lexical { fill: #e0b072 }
@media (prefers-color-scheme: dark) {
text { fill: #eceef2 } .scale { fill: #a9b0bd } .grid { stroke: #a9b0bd }
.paper { fill: #16181d } .syntactic { fill: #8ab8ff } .lexical { fill: #b5752a }
}"""
DIGITS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def states(folder: Path) -> None:
    """A parse with the hidden states of its nodes, by a grammar that learnt them from trees.

    The trees are 10,000 samples of the hand-written grammar, stripped of its hidden states. The
    same grammar is learnt on the command line by

        sapwood sample bundled -n 10000 > trees.mrg
        sapwood train trees.mrg -o states.sapwood --method cluster --states 16
    """
    from sapwood.constituency.parse.state_vectors import StateVectors, states_in_trees

    bank = sw.Treebank.from_trees(sw.bundled_grammar().sample(10_000, seed=0))
    grammar = sw.ClusterLPCFG(16).fit(bank).model_
    tree = sw.Parser(grammar).parse(SENTENCE.split()).tree
    found = next(states_in_trees(StateVectors(grammar), [tree]))
    spans = iter(tree.spans())

    def with_state(node: sw.Tree) -> sw.Tree:
        label, start, end = next(spans)
        at = found.get((start, end))
        if node is not tree and at is not None and at.posterior.max() >= SURE:
            label += str(int(at.posterior.argmax())).translate(DIGITS)
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
    from sapwood.dependency.data.draw import arcs_svg

    drawing = arcs_svg(sw.Arcs(words, heads, relations=relations, upos=tags))
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


def surprisal(folder: Path) -> None:
    """Surprisal of each word of two relative clauses, its syntactic and its lexical part."""
    step, unit, left = 62, 14, 46  # pixels of a word, of a bit, and before the first bar
    height = 12 * unit
    parts = []
    for row, sentence in enumerate(RELATIVE_CLAUSES):
        found = sw.surprisal(sw.bundled_grammar(), sentence.split())
        base = (row + 1) * (height + 50) - 20
        for bits in (0, 5, 10):
            y = base - bits * unit
            parts.append(f'<path class="grid" d="M{left} {y}H{left + 8 * step}"/>')
            parts.append(f'<text class="scale" x="{left - 6}" y="{y + 4}">{bits}</text>')
        rows = zip(found.words[:-1], found.syntactic, found.lexical, strict=False)
        for column, (word, syntactic, lexical) in enumerate(rows):
            x, top = left + column * step + 10, base - syntactic * unit
            for name, y, bits in (
                ("syntactic", top, syntactic),
                ("lexical", top - lexical * unit, lexical),
            ):
                size = f'width="{step - 20}" height="{bits * unit:.1f}"'
                parts.append(f'<rect class="{name}" x="{x}" y="{y:.1f}" {size}/>')
            parts.append(f'<text x="{x + step / 2 - 10}" y="{base + 17}">{word}</text>')
    for name, x in (("syntactic", left + 120), ("lexical", left + 230)):
        parts.append(f'<rect class="{name}" x="{x - 60}" y="10" width="12" height="12"/>')
        parts.append(f'<text x="{x - 12}" y="20">{name}</text>')
    parts.append(f'<text x="{left + 20}" y="20">bits</text>')
    width, whole = left + 8 * step + 16, 2 * (height + 50) + 8
    size = f'viewBox="0 0 {width} {whole}" width="{width}" height="{whole}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{BARS}</style>'
    paper = f'<rect class="paper" width="{width}" height="{whole}"/>'
    drawing = "\n".join([head, paper, *parts, "</svg>", ""])
    (folder / "surprisal.svg").write_text(drawing, encoding="utf-8")


PICTURES: dict[str, Callable[[Path], None]] = {
    made.__name__: made for made in (states, arcs, spectrum, f1, reliability, surprisal)
}

if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name](FOLDER)
        print(FOLDER / f"{name}.svg")
