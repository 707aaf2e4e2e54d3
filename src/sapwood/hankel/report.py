"""Reports on models of strings and on how they were learnt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from sapwood.core.errors import CorpusError, SapwoodError

if TYPE_CHECKING:
    from sapwood.hankel.data import Bracketed, PairConstraints
    from sapwood.hankel.model.string_model import StringModel
    from sapwood.hankel.model.weighted_grammar import WeightedGrammar


def learn_report(learner: Any) -> dict[str, Any]:
    """The report on a fitted learner from strings.

    Returns
    -------
    dict
        `model`, `method`, `states`, `symbols`, `strings`, `basis`, `singular_values`,
        `conditioning`, `solver`, `risks`, `iterations`, `log_likelihood`, `wide_nodes`, `warnings`,
        and `total`: the sum over all strings.
    """
    info = learner.info_
    found = info.extra
    return describe_strings(learner.model_) | {
        "strings": found["n_strings"],
        "basis": list(found["basis"]) if found["basis"] else None,
        "singular_values": found["singular_values"][:32].tolist(),
        "conditioning": found["conditioning"]._asdict() if found["conditioning"] else None,
        "solver": found["solver"] or None,
        "risks": {str(n): risk for n, risk in found["risks"].items()} or None,
        "iterations": info.iterations,
        "log_likelihood": found["log_likelihood"],
        "wide_nodes": found["n_wide"],
        "warnings": info.warnings,
    }


def describe_strings(model: StringModel, name: str | None = None) -> dict[str, Any]:
    """Sizes of a model of strings, and its sum over all of them."""
    total = model.total()
    return {
        "model": name,
        "kind": type(model).__name__,
        "method": model.record.get("method"),
        "states": model.n_states,
        "symbols": list(model.symbols),
        "probabilistic": model.is_probabilistic,
        "total": {
            "mass": total.mass,
            "expected_length": total.expected_length,
            "spectral_radius": total.spectral_radius,
            "converges": total.converges,
        },
        "record": dict(model.record),
    }


def with_lines(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """The number of each line, and its symbols."""
    from sapwood.corpora.sentences import split_words

    return ((number, split_words(line)) for number, line in enumerate(lines, 1))


def with_no_pairs(lines: Iterable[str]) -> Iterator[tuple[int, list[str], None]]:
    """The number of each line and its symbols, of whose pairs nothing is known."""
    return ((number, words, None) for number, words in with_lines(lines))


def with_pairs(
    lines: Iterable[str], file: str
) -> Iterator[tuple[int, list[str], PairConstraints | None]]:
    """The number of each string's line, its symbols, and the constraints on its pairs.

    The constraints follow a tab, or are on the next line; an empty line has no constraints.

    Raises
    ------
    CorpusError
        For a string without signs, or signs that do not fit; it knows line and column.
    """
    from sapwood.corpora.sentences import split_words
    from sapwood.hankel.data import SIGNS_HINT, PairConstraints

    numbered = enumerate(lines, 1)
    for number, line in numbered:
        string, tab, signs = line.rstrip("\r\n").partition("\t")
        words, start, at = split_words(string), len(string) + 1, number
        if not words:
            yield number, [], None
            continue
        if not tab:
            start, (at, signs) = 0, next(numbered, (number, ""))
            if at == number:
                msg = "a string without the signs of its pairs"
                raise CorpusError(msg, file=file, line=number, hint=SIGNS_HINT)
        try:
            pairs = PairConstraints.parse(signs.rstrip("\r\n"), len(words))
        except CorpusError as error:
            error.file, error.line, error.column = file, at, (error.column or 1) + start
            if len(words) == 1 < len(words[0]) == len(signs.strip()):
                error.hint = "put blanks between the symbols of the string"
            raise
        yield number, words, pairs


def bracket_record(
    model: WeightedGrammar, found: Bracketed | None, pairs: PairConstraints | None
) -> dict[str, Any]:
    """The brackets of a string, its pairs, and the log-probability of the given pairs.

    Returns
    -------
    dict
        `tree` and `pairs`, None for an empty string, and for given pairs `constraint_log_prob`,
        None where their fraction of the value of the string is not positive.
    """
    from sapwood.hankel.data import pair_signs

    if found is None:
        return {"tree": None, "pairs": None}
    record: dict[str, Any] = {"tree": str(found.tree()), "pairs": pair_signs(found)}
    if pairs is not None:
        fraction = model.pair_log_prob(found.words, pairs)
        record["constraint_log_prob"] = fraction.log if fraction.sign > 0 else None
    return record


def at_line(error: SapwoodError, file: str, line: int) -> CorpusError:
    """The error about a string, with the file and line of the string."""
    return CorpusError(error.message, file=file, line=line, hint=error.hint)
