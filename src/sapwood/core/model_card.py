"""Provenance and model cards: the kind, training, scores and limits of a model, for its users."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sapwood.core.errors import FewDataWarning, count, join_words

if TYPE_CHECKING:
    from sapwood.core.model_files import SavedModel


def with_provenance(model: Any, *examples: tuple[int, str], **origin: Any) -> Any:
    """The model of any kind with a record of where it comes from, and of what made it.

    Parameters
    ----------
    examples
        What the model was learnt from, as for `warn_few`, which warns where it is little.
    origin
        The entries of the record.

    Examples
    --------
    >>> from sapwood.constituency.grammar.from_text import bundled_grammar
    >>> sorted(with_provenance(bundled_grammar(), treebanks=["mine.mrg"]).record)
    ['method', 'sapwood', 'treebanks']
    """
    from sapwood import __version__

    for n, noun in examples:
        warn_few(model, n, noun)
    return replace(model, record={**model.record, **origin, "sapwood": __version__})


def warn_few(model: SavedModel, n: int, noun: str) -> None:
    """Warn, with a `FewDataWarning`, where a model was learnt from very few examples.

    Parameters
    ----------
    n
        Number of trees, sentences or strings that the model was learnt from.
    noun
        What they are, in the singular.
    """
    if n >= FewDataWarning.FEWEST:
        return
    n_weights = sum(x.size for x in model.to_file().arrays.values() if x.dtype.kind == "f")
    warning = FewDataWarning(
        f"{count(n_weights, 'weight')} were learnt from {count(n, noun)} only, and may be wrong "
        f"for any other {noun}",
        f"give at least {FewDataWarning.FEWEST}, and some hundred where the model is to be used",
    )
    warnings.warn(warning, stacklevel=2)


class Purpose(NamedTuple):
    """The use of one kind of model."""

    what: str  # the kind in words
    command: str  # that uses it; MODEL stands for the file
    limits: tuple[str, ...] = ()
    has_mixed_members: bool = False  # members whose weights depend on the context
    has_weighted_members: bool = False  # members with one weight each


_PHRASES = "sapwood parse MODEL sentences.txt"
_LM = "sapwood lm evaluate MODEL text.txt"
_LM_LIMITS = (
    "It knows the words that were counted; all others are one unknown word.",
    "It looks at one or two words before the next and at nothing further away.",
)
_STRING_LIMITS = ("Its values need not sum to 1 and may be negative, unless it was learnt by EM.",)
_LATENT_LIMITS = (
    "It weighs what the words of a given tree show, not whether the tree is likely in itself.",
)
PURPOSES = {
    "LatentGrammar": Purpose("a grammar with hidden states, which parses sentences", _PHRASES),
    "FeatureGrammar": Purpose(
        "a parser by weights of features of spans",
        _PHRASES,
        ("It has no hidden states to look at, and no probability of a sentence by itself.",),
    ),
    "SpanNetwork": Purpose(
        "a small neural network that labels the spans of a sentence",
        _PHRASES,
        ("What it has learnt cannot be read off its numbers.",),
    ),
    "Ensemble": Purpose(
        "several parsers whose posteriors are averaged", _PHRASES, has_weighted_members=True
    ),
    "ArcModel": Purpose(
        "a dependency parser with its tagger", "sapwood depend parse MODEL sentences.txt"
    ),
    "ArcRerankModel": Purpose(
        "a chooser among the best dependency trees of a parser",
        "sapwood depend parse MODEL sentences.txt",
    ),
    "DependencyModel": Purpose(
        "a latent-variable model of dependency trees",
        "sapwood depend score MODEL trees.conllu",
        _LATENT_LIMITS,
    ),
    "HiddenMarkovModel": Purpose("a hidden Markov model of tags or words", "sapwood inspect MODEL"),
    "Eigenwords": Purpose(
        "vectors of words",
        "sapwood inspect MODEL --word WORD",
        ("A word that was rare in the text has the vector of its shape.",),
    ),
    "WeightedGrammar": Purpose(
        "a weighted grammar of strings", "sapwood hankel parse MODEL strings.txt", _STRING_LIMITS
    ),
    "SequenceModel": Purpose(
        "a weighted automaton of strings", "sapwood hankel score MODEL strings.txt", _STRING_LIMITS
    ),
    "UniformTreeModel": Purpose(
        "a model of sentences whose trees are hidden and equally likely",
        "sapwood score MODEL sentences.txt",
        ("It assumes that all trees over a sentence are equally likely.",),
    ),
    "NgramModel": Purpose("a language model by n-grams", _LM, _LM_LIMITS),
    "BigramModel": Purpose("a language model with hidden states", _LM, _LM_LIMITS),
    "LatentTrigramModel": Purpose("a language model with hidden states", _LM, _LM_LIMITS),
    "LatentNgramModel": Purpose("n-grams that back off to hidden states", _LM, _LM_LIMITS),
    "MixtureModel": Purpose(
        "a mixture of language models", _LM, _LM_LIMITS, has_mixed_members=True
    ),
}
# tables of the training record, which are not shown on a card
TABLES = {"spectrum", "pivots", "missing_pivots", "trials", "correlations", "singular_values"}
SCORES = {
    "dev_f1": "F1 on the dev trees that chose it, in percent",
    "dev_trees": "dev trees",
    "held_uas": "UAS of lists held out in training, in percent",
    "parser_uas": "UAS of the parser alone on the same, in percent",
    "log_likelihood": "log-likelihood of what it was trained on",
}
SAMPLES = ("trees", "sentences", "strings")
FEW = 1_000  # samples below which accuracy varies much with the sample


def describe_model(model: SavedModel) -> str:
    """The kind of a model and its sizes, in words that its users know.

    >>> from sapwood.constituency.grammar.from_text import bundled_grammar
    >>> describe_model(bundled_grammar())[:65]
    'a grammar with hidden states, which parses sentences (15 phrases,'
    """
    purpose = PURPOSES[type(model).__name__]
    what = purpose.what
    if purpose.has_mixed_members:
        return f"{what}: {join_words([describe_model(one) for one in vars(model)['members']])}"
    return f"{what} ({repr(model).partition(': ')[2].removesuffix('>')})"


def model_card(model: SavedModel, name: str | None = None) -> dict[str, Any]:
    """The facts that people should know before they use a model, named as its file is.

    The card has `model` (the name), `kind`, `what` it is, the `command` that uses it, `sizes`,
    `training` (as far as the file says), `scores`, `members` (of an ensemble: kind, method, weight,
    F1 on dev trees), and `limits`, in sentences.

    >>> from sapwood.constituency.grammar.from_text import bundled_grammar
    >>> card = model_card(bundled_grammar(), "bundled")
    >>> card["kind"], card["what"]
    ('LatentGrammar', 'a grammar with hidden states, which parses sentences')
    """
    kind = type(model).__name__
    purpose = PURPOSES[kind]
    record = dict(getattr(model, "record", {}))
    scores = {title: record[key] for key, title in SCORES.items() if record.get(key)}
    training = {
        key.replace("_", " "): value
        for key, value in record.items()
        if key not in TABLES | set(SCORES) and value is not None
    }
    return {
        "model": name,
        "kind": kind,
        "what": purpose.what,
        "command": purpose.command.replace("MODEL", name or "MODEL"),
        "sizes": _sizes(model),
        "training": training,
        "scores": scores,
        "members": _members(model),
        "limits": [*_limits(model, record), *purpose.limits],
    }


def _sizes(model: SavedModel) -> dict[str, Any]:
    """Sizes that all kinds have: a summary, the number of weights, and vocabularies."""
    contents = model.to_file()
    weights = [array for array in contents.arrays.values() if array.dtype.kind == "f"]
    found: dict[str, Any] = {
        "in short": describe_model(model),
        "weights": sum(int(array.size) for array in weights),
        "megabytes": round(sum(array.nbytes for array in contents.arrays.values()) / 1e6, 1),
    }
    for key in ("words", "symbols", "tags", "relations", "vocabulary"):
        value = contents.header.get(key)
        if isinstance(value, (list, tuple)):
            found[key] = len(value)
    return found


def _members(model: SavedModel) -> list[dict[str, Any]]:
    if not PURPOSES[type(model).__name__].has_weighted_members:
        return []
    members, weights = vars(model)["members"], vars(model)["weights"]
    return [
        {
            "kind": type(member).__name__,
            "method": member.record.get("method"),
            "weight": float(weight),
            "dev_f1": member.record.get("dev_f1"),
        }
        for member, weight in zip(members, weights, strict=True)
    ]


def _limits(model: SavedModel, record: Mapping[str, Any]) -> Iterator[str]:
    """Limits that follow from the training of this model, in sentences."""
    origin = record.get("treebanks") or record.get("texts")
    if not record:
        yield "The file does not say what it was trained on, nor how."
    elif not origin:
        yield "The file does not say which text or trees it was trained on."
    else:
        yield "It was made for text like that; other kinds of text are analysed less well."
        yield "The licence of what it was trained on may bind the model too."
    if record.get("pretrained"):
        yield "It reads a pretrained encoder or word vectors, whose licence binds it too."
    n = next((record[key] for key in SAMPLES if record.get(key)), None)
    if n and n < FEW:
        yield f"It has seen {n:,} sentences only: accuracy on others varies much."
    if getattr(model, "is_probabilistic", True) is False:
        yield "Its weights are no probabilities and may be negative: it cannot be sampled."
    if record.get("dev_f1"):
        yield "The F1 above flatters: the same dev trees chose the model. Report other trees."
    if not any(record.get(key) for key in ("dev_f1", "held_uas")):
        yield "No score is in the file: evaluate it on trees or text that it has not seen."
