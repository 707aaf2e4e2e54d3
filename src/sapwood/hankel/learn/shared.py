"""Input, diagnostics and the choice of the number of states of all learners from strings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from sapwood.core.errors import SapwoodError, SapwoodTypeError, as_items, as_sentence
from sapwood.core.learner import (
    MAX_STATES,
    Estimator,
    Info,
    between,
    maybe,
    one_of,
    parameter,
    positional,
    whole,
)
from sapwood.corpora.tree import as_tree
from sapwood.hankel.data import Bracketed, bracket
from sapwood.hankel.learn.moments import Inside
from sapwood.hankel.model.string_model import StringModel
from sapwood.linalg.hankel import HankelConditioning

HELD_OUT_EVERY = 10  # every tenth string is held out to choose the number of states
MOST_TRIED = 12  # the largest number of states that is tried
ALIKE = 0.005  # of the best risk: numbers of states whose risks differ by less are equally good
MOST_ERROR = 1.0  # relative error of the operators, to first order, above which they mean little


def string_info(**known: Any) -> Info:
    """The `Info` of a learner from strings before it learns.

    `n_strings` is the number of strings learnt from; `basis` the numbers of contexts and inside
    strings (prefixes and suffixes for automata); `singular_values` those of the Hankel block;
    `conditioning` says how much noise is amplified; `solver` has the solver's steps, feasibility
    and gap; `iterations` and `log_likelihood` are those of EM; `risks` held-out risks by number of
    states, where the number was chosen so; `n_wide` the number of nodes with more than two
    children, which were split to the right.
    """
    unknown: dict[str, Any] = {
        "n_strings": 0.0, "basis": None, "singular_values": np.empty(0), "conditioning": None,
        "solver": {}, "iterations": 0, "log_likelihood": None, "risks": {}, "n_wide": 0,
    }  # fmt: skip
    return Info(extra=unknown | known)


def judge_conditioning(info: Info, found: HankelConditioning) -> None:
    """Record the conditioning, and warn where noise drowns the singular values that are kept."""
    info.extra["conditioning"] = found
    if found.relative_error > MOST_ERROR:
        info.warn(
            f"ill-conditioned: the smallest singular value kept, {found.smallest:.3g}, is not "
            f"above the noise of {info.extra['n_strings']:,.0f} strings, about "
            f"{found.noise:.3g}: fewer states, or more strings",
            stacklevel=2,
        )


def string_record(info: Info, method: str, n_states: int) -> dict[str, Any]:
    """The record of the training in a model file."""
    record: dict[str, Any] = {"method": method, "states": n_states}
    found = info.extra
    n_strings, log_likelihood = found["n_strings"], found["log_likelihood"]
    if np.isfinite(n_strings):
        record["strings"] = int(n_strings) if n_strings % 1 == 0 else n_strings
    if found["basis"] is not None:
        record["basis"] = list(found["basis"])
        record["singular_values"] = [float(f"{x:.4g}") for x in found["singular_values"][:32]]
    if log_likelihood is not None:
        record |= {"iterations": found["iterations"], "log_likelihood": log_likelihood}
    return record


class RankParameters(Estimator):
    """A learner whose number of states can be chosen from the data."""

    n_states: int | None = positional(
        default=None,
        domain=maybe(whole(1, MAX_STATES)),
        words="Hidden states; None chooses them.",
        kw_only=False,
    )
    choose: str = parameter(
        "gap",
        one_of(("gap", "held-out")),
        "How the number of states is chosen where it is None: the widest gap between singular "
        "values above the noise, or the risk on held-out strings.",
    )
    basis: float = parameter(
        0.1,
        between(0, 1, "(]"),
        "Basis factor: the fraction of the inside strings and contexts, the most frequent ones, "
        "that are columns and rows of the Hankel matrix.",
    )


def read_bracketed(trees: object) -> tuple[list[Bracketed], int]:
    """Bracketed strings of trees, and the number of their nodes with more than two children."""
    if isinstance(trees, Mapping):
        raise SapwoodTypeError("expected trees, not a mapping", hint="give a list of trees")
    found, n_wide = [], 0
    for item in as_items(trees, "trees"):
        made, wide = (item, 0) if isinstance(item, Bracketed) else bracket(as_tree(item))
        found.append(made)
        n_wide += wide
    if not found:
        msg = "no trees: nothing can be learnt"
        raise SapwoodError(msg, hint="give bracketed trees, such as (S (A a) (B b))")
    return found, n_wide


def read_strings(strings: object) -> Counter[Inside]:
    """Counts of strings, from a mapping of strings to counts or from lists of symbols."""
    if isinstance(strings, Mapping):
        items: Iterable[tuple[Any, Any]] = strings.items()
    else:
        items = ((words, 1) for words in as_items(strings, "strings"))
    found: Counter[Inside] = Counter()
    for words, times in items:
        found[tuple(as_sentence(words))] += times
    if not found.total() > 0:
        msg = "no strings: nothing can be learnt"
        raise SapwoodError(msg, hint="give one string per line, its symbols separated by blanks")
    return found


def risk(model: StringModel, held: Mapping[Inside, float], seen: Mapping[Inside, float]) -> float:
    """Squared distance from the distribution of held-out strings, less a constant.

    sum over all strings seen of f(x)^2  -  2 * mean of f over the held-out strings
    """
    known = set(model.symbols)
    every = [x for x in {*held, *seen} if known.issuperset(x)]
    value = dict(zip(every, model.values(every), strict=True))
    mean = sum(value.get(x, 0.0) * times for x, times in held.items()) / sum(held.values())
    return float(sum(f * f for f in value.values()) - 2 * mean)


def split_counts(strings: Mapping[Inside, float]) -> tuple[Counter[Inside], Counter[Inside]]:
    """Strings to learn from, and about a tenth of all strings as held-out data."""
    held = Counter({x: t // HELD_OUT_EVERY for x, t in strings.items() if t >= HELD_OUT_EVERY})
    for place, (x, times) in enumerate(sorted(strings.items())):
        if times < HELD_OUT_EVERY and place % HELD_OUT_EVERY == 0:
            held[x] += times  # type: ignore[assignment]
    rest = Counter(strings)
    rest.subtract(held)
    return +rest, +held


def best_rank(
    learn: Callable[[int], StringModel], judge: Callable[[StringModel], float], most: int
) -> dict[int, float]:
    """The risk of each number of states that can be learnt."""
    risks: dict[int, float] = {}
    for n in range(1, min(most, MOST_TRIED) + 1):
        try:
            found = judge(learn(n))
        except (SapwoodError, np.linalg.LinAlgError):
            break
        risks[n] = found if np.isfinite(found) else np.inf
    return risks


def choose_rank(risks: Mapping[int, float]) -> int:
    """The least number of states whose risk is about as low as the lowest.

    Examples
    --------
    >>> choose_rank({1: 0.0, 2: -0.25, 3: -0.3, 4: -0.3001})
    3
    """
    best = min(risks.values())
    return min(n for n, found in risks.items() if found <= best + ALIKE * abs(best))


def choose_states(
    info: Info,
    learn: Callable[[int], StringModel],
    rest: Mapping[Inside, float],
    held: Mapping[Inside, float],
    most: int,
) -> int:
    """The number of states, at most `most`, of least risk on held-out strings; risks go to `info`.

    Parameters
    ----------
    learn
        Learns a model of a number of states from the rest of the strings.
    """
    info.extra["risks"] = best_rank(learn, lambda model: risk(model, held, rest), most) or {1: 0.0}
    return choose_rank(info.extra["risks"])
