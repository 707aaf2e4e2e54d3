"""The experiments of WCFG, section 5, and ours: random targets, Dyck, tags, RNA."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

from sapwood.errors import SapwoodError, SapwoodWarning

if TYPE_CHECKING:
    from sapwood.corpus.rna import Structure
    from sapwood.corpus.tree import Tree
    from sapwood.models.strings.weighted_grammar import WeightedGrammar

SOLVERS = ("fista", "admm", "direct", "factored")
RANDOM_METHODS = ("supervised", *SOLVERS, "direct + values", "em")
SIZES = tuple(10**k for k in range(3, 10))
LISTED = {2: 10, 6: 4}  # symbols: length up to which strings are drawn as one multinomial
LONGEST = 10  # of strings that KL is summed over
TAIL = 40  # of longer strings that EM reads
N_DRAWS = 4000
NONE = 50.0  # KL of a learner that found nothing at all


def study_random(
    states: int,
    symbols: int,
    *,
    targets: int = 50,
    sizes: Sequence[int] = SIZES,
    methods: Sequence[str] = RANDOM_METHODS,
    em_iterations: int = 200,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Figures 1 and 2: KL up to length 10 by size of the sample, geometric means over targets.

    Targets are random PCFGs that end with probability 1. Samples are multinomials of exact
    probabilities: of strings up to 10 (2 symbols) or 4 symbols; longer ones, which only EM reads,
    are drawn, some hundred of at most 40 symbols, and weighted.
    """
    import numpy as np

    from sapwood.models.strings.targets import random_pcfg

    rng = np.random.default_rng(seed)
    found: dict[tuple[str, int], list[float]] = {}
    seconds: dict[str, float] = defaultdict(float)
    n_drawn = 0
    for _ in range(targets):
        target, tries = random_pcfg(states, symbols, rng)
        n_drawn += tries
        trial = _Trial(target, em_iterations)
        for size in sizes:
            sample = trial.draw(size, rng)
            for method in methods:
                start = process_time()
                kl = trial.kl(method, sample)
                seconds[method] += process_time() - start
                found.setdefault((method, size), []).append(kl)
    return [
        {
            "method": method,
            "samples": size,
            "kl": float(np.exp(np.mean(np.log(np.maximum(values, 1e-18))))),
            "worst": float(max(values)),
            "targets": targets,
            "drawn": n_drawn,
            "seconds": seconds[method] / targets / len(sizes),
        }
        for (method, size), values in found.items()
    ]


class _Trial:
    """One target: its samples, and how far what is learnt from them is from it."""

    def __init__(self, target: WeightedGrammar, em_iterations: int) -> None:
        from sapwood.corpus.bracketed import from_splits
        from sapwood.evaluate.strings import strings_up_to
        from sapwood.moments.hankel import Basis

        self.target, self.em_iterations = target, em_iterations
        d = len(target.symbols)
        self.listed = strings_up_to(target.symbols, LISTED.get(d, 3))
        self.p = target.values(self.listed)
        drawn = [x.words for x in target.sample_brackets(N_DRAWS, seed=1)]
        self.draws = [x for x in drawn if len(x) <= LONGEST]
        self.tail = [x for x in drawn if len(self.listed[-1]) < len(x) <= TAIL][:500]
        self.basis = Basis.smallest(target.symbols)
        self.trees = [
            from_splits(x, splits)
            for x in strings_up_to(target.symbols, 3)
            for splits in ({(0, 3): 1, (1, 3): 2, (0, 2): 1}, {(0, 3): 2, (0, 2): 1})[
                : max(len(x) - 1, 1)
            ]
        ]

    def draw(self, size: int, rng: Any) -> dict[str, Any]:
        """Counts of strings and of bracketed strings."""
        import numpy as np

        rest = max(1 - float(self.p.sum()), 0.0)
        counts = rng.multinomial(size, np.append(self.p, rest))
        strings = {x: int(t) for x, t in zip(self.listed, counts[:-1], strict=True) if t}
        log = [self.target.signed_log_prob(tree.tree()).log for tree in self.trees]
        q = np.exp(log)
        trees = rng.multinomial(size, np.append(q, max(1 - float(q.sum()), 0.0)))[:-1]
        return {"n": size, "strings": strings, "rest": int(counts[-1]), "trees": trees}

    def kl(self, method: str, sample: dict[str, Any]) -> float:
        """KL of what a method learns; a constant where it learns nothing."""
        from sapwood.evaluate.strings import compare_on_draws, compare_strings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SapwoodWarning)
            try:
                model = self.learn(method, sample)
            except SapwoodError:
                return NONE
        if len(self.target.symbols) in LISTED and LISTED[len(self.target.symbols)] == LONGEST:
            return compare_strings(self.target, model, LONGEST).kl
        return compare_on_draws(self.target, model, LONGEST, self.draws).kl

    def learn(self, method: str, sample: dict[str, Any]) -> WeightedGrammar:
        """The model of a method."""
        from sapwood.estimators.strings.em_wcfg import EMWCFG
        from sapwood.estimators.strings.spectral_wcfg import SpectralWCFG
        from sapwood.estimators.strings.unsupervised_wcfg import UnsupervisedWCFG
        from sapwood.moments.hankel import HankelCounts

        n = self.target.n_states
        if method == "supervised":
            counts = HankelCounts.of_brackets(self.trees, self.basis, sample["trees"])
            counts = HankelCounts(counts.whole, counts.pairs, sample["n"])
            return SpectralWCFG(n).fit_counts(self.basis, counts).model_
        if method == "em":
            strings = Counter(sample["strings"])
            for x in self.tail:
                strings[x] += sample["rest"] / len(self.tail)
            return EMWCFG(n, iterations=self.em_iterations, starts=1).fit(strings).model_
        solver, _, refine = method.partition(" + ")
        learner = UnsupervisedWCFG(n, solver=solver, refine=refine or "none", basis=1e-9)
        return learner.fit(sample["strings"], n=sample["n"]).model_


def study_dyck(
    *,
    samples: int = 4000,
    repeats: int = 5,
    factors: Sequence[float] = (0.002, 0.005, 0.01, 0.03, 0.1),
    states: int = 4,
    unsupervised_factors: Sequence[float] = (0.0002, 0.0004),
) -> list[dict[str, Any]]:
    """Figure 3: L1 up to lengths 7 and 11 by basis factor, means over samples.

    Samples whose Hankel matrix has not the rank for so many states are left out; `samples` tells
    how many were not.
    """
    import numpy as np

    from sapwood.estimators.strings.spectral_wcfg import SpectralWCFG
    from sapwood.estimators.strings.spectral_wfa import SpectralWFA
    from sapwood.estimators.strings.unsupervised_wcfg import UnsupervisedWCFG
    from sapwood.evaluate.strings import compare_strings
    from sapwood.models.strings.targets import dyck

    target = dyck()
    drawn = [target.sample_brackets(samples, seed=seed) for seed in range(repeats)]
    plans: list[tuple[str, Any, Sequence[float]]] = [
        ("wfa", SpectralWFA, factors),
        ("supervised", SpectralWCFG, factors),
        ("unsupervised", UnsupervisedWCFG, unsupervised_factors),
    ]
    rows = []
    for name, kind, wanted in plans:
        for factor in wanted:
            found, sizes, start = [], (0, 0), process_time()
            for sample in drawn:
                data: Any = sample if name == "supervised" else Counter(x.words for x in sample)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SapwoodWarning)
                    try:
                        learner = kind(states, basis=factor).fit(data)
                    except SapwoodError:  # so small a basis has not this rank
                        continue
                sizes = learner.info_.basis
                found.append([compare_strings(target, learner.model_, n).l1 for n in (7, 11)])
            if not found:
                continue
            l1 = np.mean(found, axis=0)
            rows.append(
                {
                    "method": name,
                    "factor": factor,
                    "basis": f"{sizes[0]} x {sizes[1]}",
                    "l1_7": float(l1[0]),
                    "l1_11": float(l1[1]),
                    "samples": len(found),
                    "seconds": (process_time() - start) / repeats,
                }
            )
    return rows


def tag_strings(trees: Iterable[Tree], longest: int = 10) -> list[tuple[Tree, tuple[str, ...]]]:
    """Trees over tags, punctuation left out, of at most so many symbols.

    Tags of the Penn treebank become the universal ones; others stay as they are.
    """
    from sapwood.corpus.tree import Tree, clean, rebuild

    def leaf(node: Tree) -> Tree | None:
        tag = UNIVERSAL.get(node.label.split("|")[-1], node.label)
        return None if tag == "." else Tree(tag, tag)

    found = []
    for tree in trees:
        kept = clean(tree)
        made = rebuild(kept, leaf, Tree) if kept is not None else None
        if made is not None and len(words := made.words()) <= longest:
            found.append((made, tuple(words)))
    return found


# Petrov, Das and McDonald (2012); "." is what is left out
UNIVERSAL = {
    tag: universal
    for universal, tags in {
        "NOUN": "NN NNS NNP NNPS", "VERB": "VB VBD VBG VBN VBP VBZ MD", "ADJ": "JJ JJR JJS AFX",
        "ADV": "RB RBR RBS WRB", "PRON": "PRP PRP$ WP WP$ EX", "DET": "DT PDT WDT",
        "ADP": "IN", "NUM": "CD", "CONJ": "CC", "PRT": "RP TO POS", "X": "FW UH LS SYM",
        ".": ". , : `` '' -LRB- -RRB- $ # HYPH NFP",
    }.items()
    for tag in tags.split()
}  # fmt: skip


def study_tags(
    train: Iterable[Tree],
    dev: Iterable[Tree] = (),
    *,
    factors: Sequence[float] = (0.001, 0.003),
    states: Sequence[int] = (5, 10),
    solver: str = "admm",
    em_states: int = 10,
) -> dict[str, list[dict[str, Any]]]:
    """Tables 1 and 2: sizes of problems, expected L1 on the strings learnt from, bracketing F1."""
    from sapwood.corpus.bracketed import left_branching, right_branching
    from sapwood.estimators.strings.em_wcfg import EMWCFG
    from sapwood.estimators.strings.spectral_wcfg import SpectralWCFG
    from sapwood.evaluate.strings import unlabelled

    known, judged = tag_strings(train), tag_strings(dev)
    judged = judged or known
    strings = Counter(x for _, x in known)
    alphabet = {symbol for x in strings for symbol in x}
    gold = [tree for tree, x in judged if alphabet.issuperset(x)]
    words = [tree.words() for tree in gold]
    sizes, rows = [], []
    for factor in factors:
        for n in states:
            sized, row = _tag_run(strings, factor, n, solver, gold)
            sizes += [sized] if n == states[0] else []
            rows.append(row)
    scores: list[dict[str, Any]] = []
    for name, guesses in (
        ("left-branching", map(left_branching, words)),
        ("right-branching", map(right_branching, words)),
    ):
        scores.append({"model": name} | unlabelled(gold, guesses).as_dict())
    brackets = [tree for tree, _ in known]
    most, em = max(states), EMWCFG(em_states, iterations=40, starts=1)
    learners: list[tuple[str, Any, Any]] = [
        (f"EM, {em_states} states", em, strings),
        (f"EM on brackets, {em_states} states", em, brackets),
        (f"supervised spectral, {most} states", SpectralWCFG(most, basis=0.02), brackets),
    ]
    for name, learner, data in learners:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SapwoodWarning)
            try:
                model = learner.fit(data).model_
            except SapwoodError:  # more states than this little data has
                continue
        scores.append({"model": name} | unlabelled(gold, map(model.best_brackets, words)).as_dict())
    return {"sizes": sizes, "l1": rows, "brackets": scores}


def _tag_run(
    strings: Counter[tuple[str, ...]], factor: float, n: int, solver: str, gold: Sequence[Tree]
) -> tuple[dict[str, Any], dict[str, Any]]:
    from sapwood.estimators.strings.unsupervised_wcfg import UnsupervisedWCFG
    from sapwood.evaluate.strings import expected_l1, unlabelled
    from sapwood.moments.hankel import frequencies
    from sapwood.report.training import Meter

    start, meter = perf_counter(), Meter()
    row: dict[str, Any] = {"factor": factor, "states": n}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SapwoodWarning)
        try:
            learner = UnsupervisedWCFG(n, solver=solver, basis=factor).fit(strings)
        except SapwoodError as error:
            return row, row | {"l1": None, "f1": None, "error": str(error)}
    p, s = learner.info_.basis or (0, 0)
    found = learner.info_.solver
    model = learner.model_
    f1 = unlabelled(gold, (model.best_brackets(tree.words()) for tree in gold)).f1
    size = {
        "factor": factor, "basis": f"{p} x {s}", "matrix": f"{p:,} x {s + s * s:,}",
        "entries": p * s, "observed": len(strings), "steps": found["steps"],
        "feasibility": found["feasibility"], "gap": found["gap"],
        "seconds": perf_counter() - start, "peak_mb": meter.as_dict()["peak_memory_mb"],
    }  # fmt: skip
    row |= {"basis": size["basis"], "l1": expected_l1(model, frequencies(strings)), "f1": f1}
    return size, row


def study_rna(
    train: Sequence[Structure],
    dev: Sequence[Structure],
    *,
    methods: Sequence[tuple[str, int]] = (("pcfg", 1), ("spectral", 8), ("em", 8)),
    wcfg_states: Sequence[int] = (4, 8),
    fold: Callable[[str], str] | None = None,
) -> list[dict[str, Any]]:
    """Base-pair F1 of grammars learnt from structures, and of a folding program.

    Parameters
    ----------
    methods
        Methods of `sapwood train` with their numbers of states; learnt from labelled trees.
    wcfg_states
        States of weighted grammars without labels, by EM on the brackets.
    fold
        From bases to dot-brackets: the program to compare with.
    """
    return list(_rna_rows(train, dev, methods, wcfg_states, fold))


def _rna_rows(
    train: Sequence[Structure],
    dev: Sequence[Structure],
    methods: Sequence[tuple[str, int]],
    wcfg_states: Sequence[int],
    fold: Callable[[str], str] | None,
) -> Iterator[dict[str, Any]]:
    import sapwood.corpus.treebank as treebanks
    from sapwood.corpus.rna import structure_tree, tree_structure
    from sapwood.estimators.registry import METHODS
    from sapwood.estimators.strings.em_wcfg import EMWCFG
    from sapwood.inference.parser import Parser

    trees = [structure_tree(x.bases, x.pairs) for x in train]
    bank = treebanks.Treebank.from_trees(trees)
    if fold is not None:
        yield _judge("RNAfold", 0, 0.0, dev, fold)
    for name, n in methods:
        method = METHODS[name]
        start = process_time()
        model = method.make(**method.pick({"n_states": n})).fit(bank).model_
        seconds = process_time() - start
        parser = Parser(model)

        def parse(bases: str, parser: Parser = parser) -> str:
            return tree_structure(parser.parse(list(bases)).tree)[1]

        yield _judge(name, n, seconds, dev, parse)
    for n in wcfg_states:
        start = process_time()
        grammar = EMWCFG(n, iterations=30, starts=1).fit(trees).model_
        seconds = process_time() - start

        def bracket(bases: str, grammar: WeightedGrammar = grammar) -> str:
            return tree_structure(grammar.best_brackets(list(bases)))[1]

        yield _judge("wcfg (EM on brackets)", n, seconds, dev, bracket)


def _judge(
    name: str, n: int, train_seconds: float, dev: Sequence[Structure], fold: Callable[[str], str]
) -> dict[str, Any]:
    from sapwood.report.hankel import pair_scores

    start = process_time()
    found = [fold(x.bases) for x in dev]
    seconds = process_time() - start
    by_length = {}
    for low, high in ((0, 60), (60, 120), (120, 250), (250, 501)):
        part = [i for i, x in enumerate(dev) if low < len(x.bases) <= high]
        scored = pair_scores([dev[i].pairs for i in part], [found[i] for i in part])
        by_length[f"{low + 1}-{high}"] = scored["f1"]
    return {
        "model": name,
        "states": n,
        **pair_scores([x.pairs for x in dev], found),
        "by_length": by_length,
        "train_seconds": train_seconds,
        "per_second": len(dev) / max(seconds, 1e-9),
    }
