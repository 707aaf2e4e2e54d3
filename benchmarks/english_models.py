"""Accuracy, size and speed of the models that come with Sapwood, beside what they were made from.

    export SAPWOOD_DATA=/path/to/data
    .venv/bin/python benchmarks/english_models.py --made-from build/models

`--made-from` is the work folder of `tools/make_models.py`; without it the first rows are left out.
Gold trees are joined as those that were learnt from; those of the Penn Treebank sample are cleaned
only, and were never learnt from. The last table is of one sentence of 12 words from the shell:
`python -m sapwood parse`, processor time of the process, with the kernels compiled before (warm),
and with an empty folder of compiled kernels (cold), where a short sentence is interpreted.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from itertools import accumulate, pairwise
from pathlib import Path
from time import process_time

import sapwood as sw
from sapwood.corpora.fetch import basic_columns
from sapwood.networks.network import one_blas_thread

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tools.make_models import CRAFT, EWT, GUM, TARGET, Recipe, Workshop, corpus_lines

SENTENCE = "The old man in the park saw the dog with a telescope ."
REPEATS = 3


def gold_trees(data: Path) -> dict[str, list[sw.Tree]]:
    """Dev trees by corpus."""
    shop = Workshop(Path(), Path(), Recipe())
    sample = sw.read_trees(data / "ptb_nltk_sample" / "dev.mrg.xz")
    return {
        "GUM": list(shop.trees(GUM, "dev")),
        "CRAFT": list(shop.trees(CRAFT, "dev")),
        "Penn sample": [tree for tree in map(sw.clean, sample) if tree is not None],
    }


def tree_row(name: str, path: Path, gold: dict[str, list[sw.Tree]]) -> str:
    """F1 on each corpus, bytes, and sentences a CPU second over all."""
    model, scores, seconds, n = sw.load(path), [], 0.0, 0
    for trees in gold.values():
        parser, words = sw.Parser(model), [tree.words() for tree in trees]
        parser.parse(words[0])  # kernels are loaded
        began = process_time()
        with one_blas_thread():
            found = [parse.tree for parse in parser.parse_many(words)]
        seconds, n = seconds + process_time() - began, n + len(words)
        scores.append(f"{sw.evaluate.bracketing(trees, found).f1:.2f}")
    return f"| {name} | {' | '.join(scores)} | {path.stat().st_size:,} | {n / seconds:.0f} |"


def arc_row(name: str, path: Path, gold: list[sw.Arcs]) -> str:
    """UAS, LAS and tags, bytes, and sentences a CPU second."""
    parser, words = sw.ArcParser(sw.load(path)), [list(arcs.words) for arcs in gold]
    parser.parse(words[0])
    began = process_time()
    with one_blas_thread():
        found = [parse.arcs for parse in parser.parse_many(words)]
    seconds = process_time() - began
    scores = sw.evaluate.attachment(gold, found)
    figures = " | ".join(f"{scores.percent(one):.2f}" for one in ("uas", "las", "upos"))
    return f"| {name} | {figures} | {path.stat().st_size:,} | {len(words) / seconds:.0f} |"


def shell_seconds(command: list[str], path: Path, *, is_cold: bool) -> float:
    """Least processor time, of several runs, of parsing one sentence from the shell."""
    seconds = []
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with tempfile.TemporaryDirectory() as empty:
            cold = {"NUMBA_CACHE_DIR": empty} if is_cold else {}
            subprocess.run(
                [sys.executable, "-m", "sapwood", *command, str(path)], input=SENTENCE + "\n",
                text=True, check=True, capture_output=True, env=os.environ | cold,
            )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        parts = ("ru_utime", "ru_stime")
        seconds.append(sum(getattr(after, x) - getattr(before, x) for x in parts))
    return min(seconds)


def print_times() -> None:
    """Print the processor time of one sentence from the shell."""
    print("\n| one sentence, CPU seconds | warm | cold |\n|---|---:|---:|")
    for name, command in (("english", ["parse"]), ("english-ud", ["depend", "parse", "--raw"])):
        path = TARGET / f"{name}.sapwood"
        shell_seconds(command, path, is_cold=False)  # compiles what is not compiled yet
        figures = [shell_seconds(command, path, is_cold=x) for x in (False, True)]
        print(f"| `{name}` | {figures[0]:.2f} | {figures[1]:.2f} |", flush=True)


def raw_text(tree: sw.Tree) -> str:
    """The text that a tree's words were probably cut from: blanks are guessed by tags."""
    text, is_glued = "", True
    for node in tree.preterminals():
        word, tag = node.word, node.label
        is_dash = tag == "HYPH" or (tag == ":" and word == "-") or (tag == "SYM" and word == "/")
        is_mark = tag in {",", ".", "''", "-RRB-", "POS"} or (tag == ":" and word in ":;...")
        is_ending = word == "%" or (word == "not" and text[-3:].lower() == "can")
        is_ending = is_ending or word in {"n't", "'s", "'re", "'ve", "'ll", "'d", "'m"}
        if not (is_glued or is_dash or is_mark or is_ending):
            text += " "
        text += _as_written(word)
        is_glued = is_dash or tag in {"``", "-LRB-", "$"}
    return text


def _as_written(word: str) -> str:
    for penn, plain in (("-LRB-", "("), ("-RRB-", ")"), ("-LSB-", "["), ("-RSB-", "]")):
        word = word.replace(penn, plain)
    return word.replace("``", '"').replace("''", '"').replace("\\/", "/").replace("`", "'")


def token_f1(model: sw.Ensemble, trees: list[sw.Tree]) -> float:
    """F1 of the words that the tokenizer of a model cuts from the text of trees, in percent."""
    tokenize, n_right, n_all = sw.Parser(model).tokenizer, 0, 0
    for tree in trees:
        sets = []
        for words in (tree.words(), tokenize(raw_text(tree))):
            ends = [0, *accumulate(len(_as_written(word)) for word in words)]
            sets.append(set(pairwise(ends)))
        n_right, n_all = n_right + len(sets[0] & sets[1]), n_all + len(sets[0]) + len(sets[1])
    return 200 * n_right / n_all


def main() -> None:
    """Print the tables of docs/reference/models.md."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--made-from", type=Path, metavar="FOLDER")
    parser.add_argument("--tokens", action="store_true", help="only F1 of words of raw text")
    parser.add_argument("--times", action="store_true", help="only seconds of one sentence")
    given = parser.parse_args()
    if given.times:
        print_times()
        return
    data = Path(os.environ["SAPWOOD_DATA"])
    gold = gold_trees(data)
    if given.tokens:
        model = sw.load(TARGET / "english.sapwood")
        for name in ("GUM", "CRAFT"):
            print(f"words of {name} dev: F1 {token_f1(model, gold[name]):.1f}")
        return
    print(f"| F1 on dev | {' | '.join(gold)} | bytes | sentences a CPU second |")
    print("|---|---:|---:|---:|---:|---:|")
    if given.made_from:
        print(tree_row("the mix", given.made_from / "mix.sapwood", gold), flush=True)
        print(tree_row("its grammar", given.made_from / "small.sapwood", gold), flush=True)
    print(tree_row("`english`", TARGET / "english.sapwood", gold), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dev.conllu"
        lines = basic_columns(corpus_lines(EWT, "dev"))
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        arcs = list(sw.read_arcs(path))
    print("\n| on EWT dev | UAS | LAS | UPOS | bytes | sentences a CPU second |")
    print("|---|---:|---:|---:|---:|---:|")
    if given.made_from:
        print(arc_row("`best`", given.made_from / "ud.sapwood", arcs), flush=True)
    print(arc_row("`english-ud`", TARGET / "english-ud.sapwood", arcs), flush=True)
    print_times()
    cards = [
        json.loads((TARGET / f"{name}.json").read_text()) for name in ("english", "english-ud")
    ]
    print(f"\nchecksums: {', '.join(card['sha256'][:12] for card in cards)}")


if __name__ == "__main__":
    main()
