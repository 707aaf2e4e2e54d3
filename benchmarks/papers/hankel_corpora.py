"""The experiments of WCFG, section 5.3, and ours on real data: strings of tags, and RNA."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

from sapwood.core.errors import SapwoodError, SapwoodWarning
from sapwood.hankel.data import Bracketed

if TYPE_CHECKING:
    from sapwood.constituency.data.treebank import Treebank
    from sapwood.corpora.tree import Tree
    from sapwood.dependency.data.bank import Arcs
    from sapwood.hankel.data import Structure
    from sapwood.hankel.model.string_model import StringModel


LONGEST = 10  # tags of a string


class Plan(NamedTuple):
    """A solver, and the basis factor that it is given."""

    solver: str
    factor: float


def tag_strings(
    trees: Iterable[Tree | Arcs], longest: int = LONGEST
) -> list[tuple[Tree, tuple[str, ...]]]:
    """Trees over tags, punctuation left out, of at most so many symbols.

    Tags of the Penn treebank become the universal ones; others stay as they are. Of dependency
    trees, a word with all that depends on it is a phrase.
    """
    from sapwood.corpora.tree import Tree, clean, rebuild

    def leaf(node: Tree) -> Tree | None:
        tag = UNIVERSAL.get(node.label.split("|")[-1], node.label)
        return None if tag == "." else Tree(tag, tag)

    found = []
    for tree in trees:
        kept = clean(tree) if isinstance(tree, Tree) else phrases_of(tree)
        made = rebuild(kept, leaf, Tree) if kept is not None else None
        if made is not None and len(words := made.words()) <= longest:
            found.append((made, tuple(words)))
    return found


def phrases_of(arcs: Arcs) -> Tree:
    """The phrases of a dependency tree over its universal tags, after lifting arcs that cross.

    Examples
    --------
    >>> from sapwood.dependency.data.bank import Arcs
    >>> print(phrases_of(Arcs(["the", "dog", "barks"], [2, 3, 0], upos=["DET", "NOUN", "VERB"])))
    (X (X (DET the) (NOUN dog)) (VERB barks))
    """
    from sapwood.corpora.tree import Tree
    from sapwood.dependency.data.transform import lift_arcs, top_down
    from sapwood.hankel.data import LABEL

    heads, _ = lift_arcs(arcs.heads, arcs.relations)
    parts = [
        [(place, Tree(tag, word))]
        for place, (tag, word) in enumerate(zip(arcs.upos, arcs.words, strict=True), 1)
    ]
    top: list[tuple[int, Tree]] = []
    for word in reversed(top_down(heads)):
        here = [tree for _, tree in sorted(parts[word - 1], key=lambda part: part[0])]
        made = here[0] if len(here) == 1 else Tree(LABEL, tuple(here))
        (parts[heads[word - 1] - 1] if heads[word - 1] else top).append((word, made))
    return top[0][1]


# Petrov, Das and McDonald (2012); "." is what is left out
UNIVERSAL = {
    tag: universal
    for universal, tags in {
        "NOUN": "NN NNS NNP NNPS", "VERB": "VB VBD VBG VBN VBP VBZ MD", "ADJ": "JJ JJR JJS AFX",
        "ADV": "RB RBR RBS WRB", "PRON": "PRP PRP$ WP WP$ EX", "DET": "DT PDT WDT",
        "ADP": "IN", "NUM": "CD", "CONJ": "CC", "PRT": "RP TO POS", "X": "FW UH LS SYM",
        ".": ". , : `` '' -LRB- -RRB- $ # HYPH NFP PUNCT",
    }.items()
    for tag in tags.split()
}  # fmt: skip


def left_branching(words: Sequence[str]) -> Bracketed:
    """Every word beside all that stand before it."""
    return Bracketed(tuple(words), tuple((0, j - 1, j) for j in range(2, len(words) + 1)))


def study_tags(
    train: Iterable[Tree | Arcs],
    dev: Iterable[Tree | Arcs] = (),
    *,
    plans: Sequence[Plan] = (Plan("admm", 0.001), Plan("factored", 0.02)),
    states: Sequence[int] = (5, 10),
    em_states: int = 10,
) -> dict[str, list[dict[str, Any]]]:
    """Tables 1 and 2: sizes of problems, expected L1 of strings, bracketing F1.

    Trees may be dependency trees; see `phrases_of`.

    Returns
    -------
    dict
        `runs`, a row for each plan and number of states; `brackets`, those of others.
    """
    from sapwood.hankel.data import right_branching
    from sapwood.hankel.learn.em_wcfg import EMWCFG
    from sapwood.hankel.learn.spectral import SpectralWCFG

    known, judged = tag_strings(train), tag_strings(dev)
    if not known:
        raise SapwoodError(
            f"no string of at most {LONGEST} tags",
            hint="give trees whose sentences have some, punctuation apart",
        )
    strings = Counter(x for _, x in known)
    trial = _TagTrial(strings, judged or known)
    runs = [trial.run(plan, n) for plan in plans for n in states]
    scores: list[dict[str, Any]] = [
        {"model": name} | trial.score(guess)
        for name, guess in (
            ("left-branching", left_branching),
            ("right-branching", right_branching),
        )
    ]
    brackets = [tree for tree, _ in known]
    most, em = max(states), EMWCFG(em_states, iterations=40, starts=1)
    learners: list[tuple[str, Any, Any]] = [
        (f"EM, {em_states} states", em, strings),
        (f"EM on brackets, {em_states} states", em, brackets),
        (f"supervised spectral, {most} states", SpectralWCFG(most, basis=0.02), brackets),
    ]
    for name, learner, data in learners:
        try:
            model = _fit(learner, data).model_
        except SapwoodError:  # more states than this little data has
            continue
        scores.append({"model": name, "l1": trial.l1(model)} | trial.score(model.best_brackets))
    return {"runs": runs, "brackets": scores}


def _fit(learner: Any, data: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SapwoodWarning)
        return learner.fit(data)


class _TagTrial:
    """Strings to learn from, and trees to judge by."""

    def __init__(
        self, strings: Counter[tuple[str, ...]], judged: Sequence[tuple[Tree, tuple[str, ...]]]
    ) -> None:
        from sapwood.hankel.learn.moments import frequencies

        alphabet = {symbol for x in strings for symbol in x}
        kept = [(tree, x) for tree, x in judged if alphabet.issuperset(x)]
        self.strings, self.gold = strings, [tree for tree, _ in kept]
        self.seen, self.new = frequencies(strings), frequencies(Counter(x for _, x in kept))

    def score(self, guess: Callable[[list[str]], Any]) -> dict[str, float]:
        """Unlabelled brackets of the trees to judge by."""
        from .string_distances import unlabelled

        return unlabelled(self.gold, (guess(tree.words()) for tree in self.gold)).as_dict()

    def l1(self, model: StringModel) -> float:
        """Expected L1 of the strings learnt from."""
        from .string_distances import expected_l1

        return expected_l1(model, self.seen)

    def run(self, plan: Plan, n: int) -> dict[str, Any]:
        """Learn from the strings alone."""
        from sapwood.execute.engine import Meter, reset_peak_memory
        from sapwood.hankel.learn.unsupervised_wcfg import UnsupervisedWCFG

        from .string_distances import expected_l1

        row: dict[str, Any] = {"solver": plan.solver, "factor": plan.factor, "states": n}
        reset_peak_memory()
        meter = Meter()
        learner = UnsupervisedWCFG(n, solver=plan.solver, basis=plan.factor)
        try:
            found = _fit(learner, self.strings).info_
        except SapwoodError as error:
            return row | {"error": str(error)}
        cost, model = meter.as_dict(), learner.model_
        p, s = found.basis
        size = {"basis": f"{p:,} x {s:,}", "entries": p * s, "matrix": f"{p:,} x {s + s * s:,}"}
        errors = {"l1": self.l1(model), "l1_new": expected_l1(model, self.new)}
        told: dict[str, Any] = row | size | found.solver | cost | errors
        return told | {"f1": self.score(model.best_brackets)["f1"]}


RNA_METHODS = (("pcfg", 1), ("spectral", 8), ("em", 8), ("best", 32))


def study_rna(
    train: Sequence[Structure],
    dev: Sequence[Structure],
    *,
    methods: Sequence[tuple[str, int]] = RNA_METHODS,
    wcfg: Sequence[tuple[str, int]] = (("em", 8),),
    wcfg_train: int | None = 1000,
    budget: float = 60.0,
    fold: Callable[[str], str] | None = None,
) -> Iterator[dict[str, Any]]:
    """Base-pair F1 of grammars learnt from structures, and of a folding program, one by one.

    Parameters
    ----------
    methods
        Methods of `sapwood train` with their numbers of states; learnt from labelled trees.
    wcfg
        `em` or `spectral` with numbers of states: weighted grammars without labels, from the
        brackets of trees.
    wcfg_train
        The most structures that they learn from; None for all.
    budget
        Seconds on the clock for the method `best`.
    fold
        From bases to dot-brackets: the program to compare with; None takes RNAfold, where the
        package ViennaRNA is installed.
    """
    import sapwood.constituency.data.treebank as treebanks
    from sapwood.hankel.data import structure_tree

    if not train or not dev:
        raise SapwoodError(
            f"no structures to {'judge by' if train else 'learn from'}",
            hint="give records of a name, bases, and dots and brackets",
        )
    if (program := fold or rnafold()) is not None:
        yield _judge("RNAfold", 0, 0.0, dev, program)
    trees = [structure_tree(x.bases, x.pairs) for x in train]
    bank = treebanks.Treebank.from_trees(trees)
    for name, n in methods:
        yield _judge_labelled(name, n, budget, bank, dev)
    for name, n in wcfg:
        yield _judge_unlabelled(name, n, trees[:wcfg_train], dev)


def rnafold() -> Callable[[str], str] | None:
    """RNAfold of the package ViennaRNA, where it is installed."""
    from importlib import import_module
    from importlib.util import find_spec

    if find_spec("RNA") is None:
        return None
    program = import_module("RNA")
    return lambda bases: str(program.fold(bases)[0])


def _judge_labelled(
    name: str, n: int, budget: float, bank: Treebank, dev: Sequence[Structure]
) -> dict[str, Any]:
    """A method of `sapwood train`."""
    from sapwood.constituency.learn.registry import METHODS
    from sapwood.constituency.parse.parser import Parser
    from sapwood.hankel.data import tree_structure

    method, start = METHODS[name], process_time()
    model = method.make(**method.pick({"n_states": n, "budget": budget})).fit(bank).model_
    seconds, parser = process_time() - start, Parser(model)
    return _judge(
        name, n, seconds, dev, lambda bases: tree_structure(parser.parse(list(bases)).tree)[1]
    )


def _judge_unlabelled(
    name: str, n: int, trees: Sequence[Tree], dev: Sequence[Structure]
) -> dict[str, Any]:
    """A weighted grammar from the brackets of trees."""
    from sapwood.hankel.data import tree_structure
    from sapwood.hankel.learn.em_wcfg import EMWCFG
    from sapwood.hankel.learn.spectral import SpectralWCFG

    is_em, start = name == "em", process_time()
    learner = EMWCFG(n, iterations=30, starts=1) if is_em else SpectralWCFG(n, basis=0.001)
    try:
        grammar = _fit(learner, trees).model_
    except SapwoodError as error:  # not of this rank
        return {"model": f"wcfg, {name}", "states": n, "error": str(error)}
    seconds = process_time() - start

    def bracket(bases: str) -> str:
        if not set(grammar.symbols).issuperset(bases):
            return "." * len(bases)
        return tree_structure(grammar.best_brackets(list(bases)))[1]

    return _judge(f"wcfg, {name}", n, seconds, dev, bracket)


def base_pairs(pairs: str) -> set[tuple[int, int]]:
    """Places that are paired.

    Examples
    --------
    >>> sorted(base_pairs("(()).()"))
    [(0, 3), (1, 2), (5, 6)]
    """
    opened: list[int] = []
    found = set()
    for place, sign in enumerate(pairs):
        if sign == "(":
            opened.append(place)
        elif sign == ")":
            found.add((opened.pop(), place))
    return found


def pair_scores(gold: Sequence[str], predicted: Sequence[str]) -> dict[str, float]:
    """Precision, recall and F1 in percent over all base pairs of structures in dot-brackets."""
    matched = n_gold = n_found = 0
    for one, other in zip(gold, predicted, strict=True):
        right, found = base_pairs(one), base_pairs(other)
        matched += len(right & found)
        n_gold += len(right)
        n_found += len(found)
    precision = 100 * matched / n_found if n_found else 0.0
    recall = 100 * matched / n_gold if n_gold else 0.0
    both = precision + recall
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / both if both else 0.0,
    }


def _judge(
    name: str, n: int, train_seconds: float, dev: Sequence[Structure], fold: Callable[[str], str]
) -> dict[str, Any]:
    start = process_time()
    found = [fold(x.bases) for x in dev]
    seconds = process_time() - start
    by_length, sizes = {}, {}
    for low, high in ((0, 60), (60, 120), (120, 250), (250, 500)):
        part = [i for i, x in enumerate(dev) if low < len(x.bases) <= high]
        scored = pair_scores([dev[i].pairs for i in part], [found[i] for i in part])
        by_length[f"{low + 1}-{high}"] = scored["f1"]
        sizes[f"{low + 1}-{high}"] = len(part)
    return {
        "model": name,
        "states": n,
        **pair_scores([x.pairs for x in dev], found),
        "by_length": by_length,
        "sequences": sizes,
        "train_seconds": train_seconds,
        "per_second": len(dev) / max(seconds, 1e-9),
    }
