"""What the main commands print on bundled data, and what every method learns there.

The files beside this one hold what was printed. They are written anew with

    .venv/bin/python -m pytest tests/golden --renew-golden

and `git diff` then shows what a change does to users. Words and layout must be the same, numbers
nearly so: processors round differently. Times, memory and versions are left out.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.contract.subjects import sentences

import sapwood as sw
from sapwood.constituency.learn.registry import METHODS

HERE = Path(__file__).parent
SENTENCES = "the dog sees the man .\nwho slept ?\nthe wug blicked quickly .\n"
# what a network learns differs from one BLAS to the next, and what a budget allows with the clock
LEARNT = ",".join(x for x, m in METHODS.items() if m.is_exact and not m.has_candidates)
# name of the file: the command; {model} is a grammar of the bundled dev trees
COMMANDS = {
    "stats.txt": "stats dev.mrg",
    "stats.json": "stats dev.mrg --json",
    "words.txt": "words few.mrg",
    "parse.txt": "parse {model} sentences.txt",
    "parse-bundled.txt": "parse bundled sentences.txt",
    "parse-k-best.txt": "parse {model} sentences.txt --k-best 3 --scores",
    "score.txt": "score bundled few.mrg",
    "evaluate.txt": "evaluate few.mrg few.mrg",
    "evaluate.json": "evaluate few.mrg parsed.mrg --json",
    "inspect.txt": "inspect {model}",
    "inspect-label.txt": "inspect bundled --label SBAR --top 3",
    "inspect.json": "inspect {model} --json",
    "sample.txt": "sample bundled -n 4 --seed 3",
    "identify.txt": "identify pcfg-ie --words 3 --states 2 --length 3 --moments 123",
    "identify.json": "identify dep-ies --words 3 --length 3 --json",
    "identify-bounds.json": "identify bounds bundled --json",
    "unmix.json": "unmix dep-ies pairs.txt --json",
    "train.json": "train dev.mrg -o em.sapwood --method em --states 4 --json",
    "compare.json": f"compare dev.mrg few.mrg --methods {LEARNT} --states 4 --json",
}
LEARNT_NUMBERS, LEARNT_BY_PIVOT_EM = "learnt.json", "learnt-pivot-em.json"
# F1 moves by some brackets when two trees are as good as each other, and EM magnifies rounding;
# EM that starts from pivots ends elsewhere on processors whose matrix products round otherwise.
SLACK = {"compare.json": 1e-2, LEARNT_NUMBERS: 1e-4, LEARNT_BY_PIVOT_EM: 1e-2}
VARIES = re.compile(r"second|memory|_mb$|sapwood|versions?$|phases|threads|jobs|best_iteration")
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.])")


def test_every_file_has_its_command() -> None:
    kept = {path.name for path in HERE.glob("*.*") if path.suffix != ".py"}
    assert kept == {*COMMANDS, *SLACK, "parameters.txt"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Treebanks, sentences and a model, under names without a place."""
    where = tmp_path_factory.mktemp("golden")
    bank = sw.bundled_treebank("dev")
    model = sw.SpectralLPCFG(4).fit(bank).model_
    model.save(where / "model.sapwood")
    few = sw.bundled_treebank("test")[:50]
    sw.write_trees(bank, where / "dev.mrg")
    sw.write_trees(few, where / "few.mrg")
    parser = sw.Parser(model)
    sw.write_trees([parser.parse(tree.words()).tree for tree in few], where / "parsed.mrg")
    (where / "sentences.txt").write_text(SENTENCES)
    (where / "pairs.txt").write_text("".join(" ".join(words) + "\n" for words in sentences()))
    return where


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_what_it_printed(
    name: str,
    cli: Callable[..., Any],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    result = cli(*COMMANDS[name].format(model="model.sapwood").split())
    assert result.status == 0, result.err
    found = steady(json.loads(result.out)) if name.endswith(".json") else result.out
    compare(name, found, request)


def test_what_every_method_learns(folder: Path, request: pytest.FixtureRequest) -> None:
    """Natural logarithms of weights, which say more of a model than its F1."""
    numbers = {}
    unseen = sw.read_treebank(folder / "few.mrg")
    for name in LEARNT.split(","):
        method = METHODS[name]
        model = method.make(**method.pick({"n_states": 4})).fit(folder / "dev.mrg").model_
        logs = model.log_probs(unseen)
        numbers[name] = {
            "states": int(model.grammars[0].n_states.sum()),
            "unseen_trees": float(logs[np.isfinite(logs)].sum().round(6)),
            "a_sentence": round(model.log_prob(SENTENCES.splitlines()[0].split()), 6),
        }
    compare(LEARNT_BY_PIVOT_EM, steady({"pivot-em": numbers.pop("pivot-em")}), request)
    compare(LEARNT_NUMBERS, steady(numbers), request)


def compare(name: str, found: str, request: pytest.FixtureRequest) -> None:
    """Compare with what is kept, or keep it."""
    if request.config.getoption("--renew-golden"):
        (HERE / name).write_text(found, encoding="utf-8")
    kept = (HERE / name).read_text(encoding="utf-8")
    assert differences(kept, found, SLACK.get(name, 1e-6)) == []


def steady(value: Any) -> str:
    """JSON without what differs between runs."""

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: "varies" if VARIES.search(key) else without(item)
                for key, item in value.items()
            }
        return [without(item) for item in value] if isinstance(value, list) else value

    return json.dumps(without(value), indent=1, ensure_ascii=False) + "\n"


def differences(kept: str, found: str, slack: float = 1e-6) -> list[str]:
    """Lines that differ by more than blanks and rounding, the first few of them."""
    pairs = zip_longest(kept.splitlines(), found.splitlines(), fillvalue="(no line)")
    return [
        f"line {number}: {one!r} was printed, now {other!r}"
        for number, (one, other) in enumerate(pairs, 1)
        if not agree(one, other, slack)
    ][:10]


def agree(one: str, other: str, slack: float) -> bool:
    """Whether two lines have the same words, and numbers that may be rounded apart."""
    words = [" ".join(NUMBER.sub("#", line).split()) for line in (one, other)]
    if words[0] != words[1]:
        return False
    return all(
        is_close(a, b, slack)
        for a, b in zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    )


def is_close(a: str, b: str, slack: float) -> bool:
    """Numbers as printed: whole ones are equal, others differ by a unit of their last place."""
    if not set(".e") & set(a + b):
        return a == b
    mantissa, _, exponent = a.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return math.isclose(float(a), float(b), rel_tol=slack, abs_tol=1.01 * unit)


# -- the comparison can fail ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kept", "found", "is_same"),
    [
        ("f1 93.21", "f1 93.22", True),
        ("f1   93.21", "f1 93.21", True),
        ("f1 93.21", "f1 93.25", False),
        ("f1 93.21", "F1 93.21", False),
        ("trees 300", "trees 301", False),
        ("log -1.23456789012", "log -1.23456789099", True),
        ("log -1.23456789012", "log -1.23466789012", False),
        ("p 1.1e-07", "p 1.2e-07", True),
        ("p 1.1e-07", "p 1.4e-07", False),
        ("(NP (DT the))", "(NP (DT a))", False),
        ("a\nb", "a", False),
    ],
)
def test_what_counts_as_the_same(kept: str, found: str, is_same: bool) -> None:
    assert (differences(kept, found) == []) == is_same
