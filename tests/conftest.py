"""Shared set-up: Hypothesis profiles, trees with awkward labels, commands in this process.

`st.from_type(Tree)` draws trees that can be written and read: one word, unary chains, traces,
labels that look like the marks our own transforms use. `train`, `bank` and `small_bank` are
bundled trees, `plain` and `learn` grammars of them, learnt once for all tests of a process.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

# Before NumPy is imported: threads inside small matrix products only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from sapwood.core.compiling import compile_watchers
from sapwood.corpora.tree import Tree

if TYPE_CHECKING:
    from sapwood.constituency.data.treebank import Treebank
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar
    from sapwood.execute import Cluster

# No deadline: the first call of a kernel compiles it.
settings.register_profile(
    "ci",
    derandomize=True,
    max_examples=50,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

compile_watchers.append(lambda name, is_start: None)  # tests hear nothing of the compiler

AWKWARD_LABELS = (
    "S", "NP", "VP", "NP-SBJ-1", "NP=2", "@X", "@VP:>PP", "A|B", "S|VP", "X^Y", "NP^S", "TOP",
    "ROOT", "S1", "VROOT", "-LRB-", "-NONE-", "=X", "N-D", "CONJ-1", "C", "WNP-1", "TOP-1", "é",
    "#", "0",
)  # fmt: skip
AWKWARD_WORDS = (
    "a", "dog", "0", "*", "*T*-1", "*pro*", "*-2", "-LRB-", "#", "%", "*x*", "a\u00a0b", "日本",
    "\u2028", "\x85", "e\u0301", "A|B", "<&>", "'", '"', "\\", ".",
)  # fmt: skip
_TEXT = st.characters(exclude_categories=["Cs"], exclude_characters=" \t\r\n\f\v()")


def labels() -> st.SearchStrategy[str]:
    """Labels that can be written in brackets, mostly awkward ones."""
    return st.one_of(st.sampled_from(AWKWARD_LABELS), st.text(_TEXT, min_size=1, max_size=4))


def trees(max_leaves: int = 12) -> st.SearchStrategy[Tree]:
    """Trees that can be written and read again; phrases, but not tags, may have an empty label."""
    words = st.one_of(st.sampled_from(AWKWARD_WORDS), st.text(_TEXT, min_size=1, max_size=4))
    leaves = st.builds(Tree, labels(), words)
    phrase_labels = st.one_of(labels(), st.just(""))

    def phrases(below: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        many = st.lists(below, min_size=1, max_size=5)
        return st.one_of(
            st.builds(Tree, phrase_labels, many),
            st.builds(lambda label, child: Tree(label, [child]), phrase_labels, below),
        )

    return st.recursive(leaves, phrases, max_leaves=max_leaves)


st.register_type_strategy(Tree, trees())


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--renew-golden`: see `tests/golden/test_golden.py`."""
    parser.addoption("--renew-golden", action="store_true", help="write tests/golden anew")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs compiled kernels where they are run as they are written.

    Tests of the cluster come last: it takes processor time even when it has nothing to do.
    """
    items.sort(key=lambda item: item.get_closest_marker("dask") is not None)
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        for item in items:
            if item.get_closest_marker("compiled"):
                item.add_marker(pytest.mark.skip(reason="kernels are not compiled"))


# -- what many tests learn: models are not changed by those who use them --------------------------


Learn = Callable[..., "LatentGrammar"]


@cache
def bundled(split: str) -> Treebank:
    """The bundled trees `train`, `dev` or `test`, read once."""
    from sapwood.constituency.data.treebank import bundled_treebank

    return bundled_treebank(split)


@pytest.fixture(scope="session")
def bank() -> Treebank:
    """The bundled dev trees."""
    return bundled("dev")


@pytest.fixture(scope="session")
def dev(bank: Treebank) -> Treebank:
    """The bundled dev trees, where tests learn from others."""
    return bank


@pytest.fixture(scope="session")
def small_bank(bank: Treebank) -> Treebank:
    """The first 150 of the bundled dev trees."""
    return bank[:150]


@pytest.fixture(scope="session")
def train() -> Treebank:
    """The bundled training trees."""
    return bundled("train")


@pytest.fixture(scope="session")
def learn(bank: Treebank) -> Learn:
    """`learn(method, states, binarise)`: a grammar of the bundled dev trees, learnt once."""
    from sapwood.constituency.learn.pcfg import PCFG
    from sapwood.constituency.learn.registry import METHODS

    @cache
    def model(method: str, states: int = 4, binarise: str | None = None) -> LatentGrammar:
        chosen = METHODS[method]
        plain = PCFG(binarise=binarise)
        given = chosen.pick({"n_states": states, "plain": plain, "binarise": binarise})
        return chosen.make(**given).fit(bank).model_

    return model


@pytest.fixture(scope="session")
def family(learn: Learn) -> list[LatentGrammar]:
    """Grammars over the same symbols: of either sign, plain, and with probabilities."""
    return [learn(method) for method in ("spectral", "pcfg", "cluster")]


@pytest.fixture(scope="session")
def plain(learn: Learn) -> LatentGrammar:
    """The plain grammar of the bundled dev trees."""
    return learn("pcfg")


# -- commands -------------------------------------------------------------------------------------


class Result(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Result]


@cache
def all_commands() -> Callable[..., None]:
    """All commands; putting them together takes longer than most of them do."""
    from typer.main import get_command

    from sapwood.cli.main import app

    return get_command(app)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process; `stdin` is its input."""

    def run(*args: object, stdin: str = "") -> Result:
        # Text of an own buffer: commands read stdin as bytes, for their own decoding.
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            all_commands()([str(arg) for arg in args], prog_name="sapwood")
        return Result(int(end.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def limit_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """`limit_memory(n)`: Sapwood finds that n bytes are free, wherever it asks."""
    import sapwood.core.errors

    def limit(n: int) -> None:
        for name in ("_machine_memory", "_container_memory", "_process_memory"):
            monkeypatch.setattr(sapwood.core.errors, name, lambda: n)

    return limit


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder with real corpora; the test is skipped where there is none."""
    folder = os.environ.get("SAPWOOD_DATA")
    if not folder:
        pytest.skip("SAPWOOD_DATA is not set")
    return Path(folder)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Two worker processes, for all tests marked `dask`."""
    from sapwood.execute import Cluster

    with Cluster(jobs=2) as engine:
        yield engine
