"""Everything in Sapwood that reads what somebody else may have written: one line for each reader.

A reader has a way to make inputs (mostly right ones that are spoilt) and a way to read one. Reading
may give a result or raise a `SapwoodError`; for a command, it may end with status 0, 1 or 2.
Anything else is a finding.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from encodings.aliases import aliases
from functools import cache, partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import typer
from tests.fuzz import audits, encoders, given, requests, seeds
from tests.fuzz.mutate import bracket_text, dump_json, sentences, spoil_bytes, spoil_json
from tests.fuzz.tensor_files import spoil_file

import sapwood as sw
from sapwood.cli.main import app
from sapwood.constituency.grammar.discriminative import FeatureGrammar, SpanNetwork
from sapwood.constituency.grammar.from_text import grammar_from_text
from sapwood.constituency.parse.decoders import DECODERS
from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.core.outputs import UnfinishedOutput
from sapwood.corpora import fetch
from sapwood.corpora.files import open_text
from sapwood.corpora.formats import read_trees
from sapwood.corpora.sentences import kind_of, read_tree_words, split_words
from sapwood.corpora.tokenize import PennTokenizer
from sapwood.dependency.data.transform import LIFTED, lift_arcs, lower_arcs
from sapwood.dependency.parse.reranking import arc_parser
from sapwood.lm.data.ngrams import load_counts
from sapwood.lm.model.ngram_model import read_arpa

Make = Callable[[random.Random, int], bytes]
Read = Callable[[bytes, Path], int | None]
CUT = b"\x00--8<--\x00"  # between the files of an input that has two
OFTEN = 3  # one input in so many is made up rather than spoilt


@dataclass(frozen=True)
class Reader:
    """One reader under test.

    Attributes
    ----------
    name
        With the area first: `model.em`.
    make
        An input from a generator and the most edits to make; fewer edits are the first of those.
    read
        Reads an input, with a folder to put it in; a command gives its exit status.
    share
        Of every thousand inputs, how many are for this reader.
    """

    name: str
    make: Make
    read: Read
    share: int


# -- making inputs --------------------------------------------------------------------------------


def spoilt(*right: str | bytes, made_up: Callable[[random.Random], bytes] | None = None) -> Make:
    """Inputs that are right but for a few edits; some are made up from the start."""
    originals = [text.encode() if isinstance(text, str) else text for text in right]

    def make(rng: random.Random, n_edits: int) -> bytes:
        is_new = made_up is not None and rng.randrange(OFTEN) == 0
        data = made_up(rng) if is_new and made_up else rng.choice(originals)
        for _ in range(n_edits):
            data = spoil_bytes(rng, data, originals)
        return data

    return make


def packed(pack: Callable[[bytes], bytes], make: Make) -> Make:
    """Compressed files: damaged inside or outside."""

    def both(rng: random.Random, n_edits: int) -> bytes:
        if rng.random() < 0.5:
            return pack(make(rng, n_edits))
        data = pack(make(rng, 0))
        for _ in range(n_edits):
            data = spoil_bytes(rng, data)
        return data

    return both


def short(make: Make, size: int = 400) -> Make:
    """No more than so many bytes: sentences of hundreds of words take long, as they should."""
    return lambda rng, n_edits: make(rng, n_edits)[:size]


def paired(one: Make, other: Make) -> Make:
    """Two files, of which one or both are spoilt."""

    def make(rng: random.Random, n_edits: int) -> bytes:
        first, second = rng.choice(((n_edits, 0), (0, n_edits), (n_edits, n_edits)))
        return one(rng, first) + CUT + other(rng, second)

    return make


def spoilt_json(text: str) -> Make:
    """JSON with other values, or that is none."""
    value, spoil_text = json.loads(text), spoilt(text)

    def make(rng: random.Random, n_edits: int) -> bytes:
        if rng.random() < 0.2:
            return spoil_text(rng, n_edits)
        changed = value
        for _ in range(n_edits):
            changed = spoil_json(rng, changed)
        return dump_json(changed).encode("utf-8", "surrogatepass")

    return make


def spoilt_model(kind: str) -> Make:
    """Model files with wrong contents under a right checksum, or with damage."""
    return lambda rng, n_edits: spoil_file(rng, seeds.model_files()[kind], n_edits)


def spoilt_counts(rng: random.Random, n_edits: int) -> bytes:
    """A file of counts with some bytes changed."""
    return spoilt(seeds.counts_file())(rng, n_edits)


def spoilt_checkpoint(rng: random.Random, n_edits: int) -> bytes:
    """Checkpoints of EM, likewise."""
    return spoil_file(rng, rng.choice(seeds.checkpoints()), n_edits)


def spoilt_part(rng: random.Random, n_edits: int) -> bytes:
    """What an interrupted `parse --resume` has left, with its note."""
    part, note = interrupted_parse()
    return paired(spoilt(part), spoilt_json(note.decode()))(rng, n_edits)


# -- reading them ---------------------------------------------------------------------------------


def put(data: bytes, folder: Path, name: str) -> Path:
    """Write an input where a reader finds it."""
    path = folder / name
    path.write_bytes(data)
    return path


def read_brackets(data: bytes, folder: Path, ending: str = ".mrg") -> None:
    """Read a treebank, strictly or not; what was read must come back when written."""
    path = put(data, folder, f"input{ending}")
    skipped: list[CorpusError] | None = [] if len(data) % 2 else None
    bank = sw.read_treebank(path, skipped=skipped)
    for tree in bank[:3].trees():
        assert sw.Tree.parse(str(tree)) == tree
    bank.tree(0).draw()


def read_one_tree(data: bytes, folder: Path) -> None:
    """Read one tree from a string."""
    tree = sw.Tree.parse(data.decode("utf-8", "replace"))
    assert list(read_trees(io.StringIO(str(tree)))) == [tree]


def read_grammar(data: bytes, folder: Path) -> None:
    """Read a hand-written grammar and use it."""
    use(grammar_from_text(data.decode("utf-8", "replace")))


def convert_with(convert_text: fetch.Convert, data: bytes, folder: Path) -> None:
    """Convert an original of a corpus."""
    list(convert_text(data.decode("utf-8", "replace"), "original", []))


def read_notation(data: bytes, folder: Path, notation: str | None = None) -> None:
    """Read trees in another notation; written as brackets they must come back."""
    path, is_odd = put(data, folder, "input"), len(data) % 2 == 1
    skipped: list[CorpusError] | None = [] if is_odd else None
    for tree in read_trees(path, format=notation, skipped=skipped, keep_functions=is_odd):
        assert sw.Tree.parse(str(tree)) == tree


ENCODINGS = ("utf-8", "utf-16", "utf-32", "utf-7", "latin-1", "gb18030", "big5")


def encoded(rng: random.Random, n_edits: int) -> bytes:
    """The name of an encoding and text in it; XML may name another, or none that there is."""
    name, text = rng.choice(ENCODINGS), rng.choice((seeds.TREES, seeds.XML_IN))
    data = text.replace("ENCODING", name).encode(name)
    if n_edits and rng.random() < 0.5:
        known = sorted(set(aliases.values()) | {"x", "undefined", "unicode_escape", "utf-8-sig"})
        name, other = rng.choice(known), rng.choice(known)
        data = text.replace("ENCODING", other).encode()
    for _ in range(n_edits):
        data = spoil_bytes(rng, data)
    return name.encode() + CUT + data


def read_encoded(data: bytes, folder: Path) -> None:
    """Read trees in an encoding, the right one or another."""
    name, _, text = data.partition(CUT)
    sw.read_treebank(put(text, folder, "input"), encoding=name.decode())


def read_model(data: bytes, folder: Path) -> None:
    """Load a model; one that loads must bear being used."""
    path = put(data, folder, "input.sapwood")
    model = sw.load(path)
    use(model, DECODERS[len(data) // 4 % len(DECODERS)])
    run("inspect", path, *((), ("--json",), ("--label", "NP"), ("--spectrum",))[len(data) % 4])


def read_language_model(data: bytes, folder: Path) -> None:
    """Load a language model; after any words, the probabilities of the next one sum to 1."""
    path = put(data, folder, "input.sapwood")
    model = sw.load(path)
    require_log_prob(model.log_prob(["the", "dog", "Unheard"]), "of a sentence")
    for context in ([], ["the"], ["a", "cat"], ["Unheard"], ["the", "dog", "sees"]):
        logs = model.next_log_probs(context)
        total = float(np.exp(logs).sum())
        assert not np.isnan(logs).any(), f"NaN after {context}"
        assert logs.max() < 1e-3, f"a probability of {np.exp(logs.max()):.4g} after {context}"
        is_foreign = not model.record or model.record.get("method") == "arpa"
        right = total < 1.06 if is_foreign else abs(total - 1) < 0.02
        assert right, f"probabilities after {context} sum to {total:.4g}"
    next(model.sample(1, np.random.default_rng(0), max_length=5))
    run("lm", "classes", path, *((), ("--json",), ("--word", "cat"))[len(data) % 3], expects=(0, 1))


def require_log_prob(value: float, what: str, *, at_most: float = 1e-6) -> None:
    """Refuse a log-probability that cannot be one."""
    assert not np.isnan(value), f"the log-probability {what} is NaN"
    assert value <= at_most, f"the log-probability {what} is {value:.4g}"


def read_hidden_trees(data: bytes, folder: Path) -> None:
    """Load a model of hidden trees, likewise; other commands refuse it."""
    path = put(data, folder, "input.sapwood")
    model = sw.load(path)
    for value in model.log_probs([["dog"], ["the", "Unheard", "sees", "1990-91"]]):
        require_log_prob(float(value), "of a sentence")
    model.sample([1, 4], seed=0)
    run("inspect", path, expects=(0, 1))


def read_latent_arcs(data: bytes, folder: Path) -> None:
    """Load a model with hidden states of dependency trees or sentences, and use it."""
    path = put(data, folder, "input.sapwood")
    model = sw.load(path)
    arcs = list(sw.read_arcs(io.StringIO(seeds.ARCS)))
    is_trees = isinstance(model, sw.DependencyModel)
    given = arcs if is_trees else [list(each.words) for each in arcs]
    most = 1e-6 if model.is_probabilistic else 1e4
    with contextlib.suppress(SapwoodError):
        for value in model.log_probs(given):
            require_log_prob(float(value), "of a tree", at_most=most)
    if is_trees:
        with contextlib.suppress(SapwoodError):
            assert np.isfinite(model.features(arcs)).all(), "features that are not finite"
    with contextlib.suppress(SapwoodError):
        model.sample(given if is_trees else [2, 3], seed=0)
    run("inspect", path)


def read_vectors(data: bytes, folder: Path) -> None:
    """Load vectors of words, and use them."""
    path = put(data, folder, "input.sapwood")
    model = sw.load(path)
    with contextlib.suppress(SapwoodError):
        assert np.isfinite(model.of(["the", "Unheard"])).all(), "vectors that are not finite"
        for near in model.nearest("dog", 3):
            assert abs(near.cosine) < 1.001, f"a cosine of {near.cosine}"
    run("inspect", path)


def read_arc_model(data: bytes, folder: Path) -> None:
    """Load a parser of arcs, likewise."""
    model = sw.load(put(data, folder, "input.sapwood"))
    parser = arc_parser(model)
    for words in (["bark"], ["I", "Unheard", "now", "1990-91"]):
        with contextlib.suppress(SapwoodError):
            parse = parser.parse(words)
            _ = (str(parse.arcs), parse.k_best(2))
            found = np.asarray(parse.posteriors)
            assert not np.isnan(found).any(), "a posterior that is NaN"
            assert found.min() > -1e-6, f"a posterior of {found.min()}"
            assert found.max() < 1.001, f"a posterior of {found.max()}"


def read_string_model(data: bytes, folder: Path) -> None:
    """Load a weighted grammar or automaton; one that loads must bear being used."""
    path = put(data, folder, "input.sapwood")
    model = sw.load(path)
    strings = put(b"a b\n\na a b b\na c\n", folder, "strings.txt")
    for words in (["a", "b"], ["a", "a", "b", "b"]):
        with contextlib.suppress(SapwoodError):
            require_log_prob(model.log_prob(words), "of a string", at_most=1e6)
    for more in (("--log",), ("--json",)):
        run("hankel", "score", path, strings, *more)
    run("hankel", "parse", path, strings)
    run("inspect", path, *((), ("--json",))[len(data) % 2])
    with contextlib.suppress(SapwoodError):
        model.sample(2, seed=0)


def learn_strings(data: bytes, folder: Path) -> int:
    """Learn a weighted grammar, or an automaton, from plain strings."""
    ways = (("--solver", "direct"), ("--method", "em"), ("--method", "wfa"), ("--basis", "0.01"))
    return learn_from(put(data, folder, "input.txt"), folder, *ways[len(data) % len(ways)])


def learn_brackets(data: bytes, folder: Path) -> int:
    """Learn a weighted grammar from the brackets of trees."""
    way = ("--method", "em") if len(data) % 2 else ("--basis", "0.5")
    return learn_from(put(data, folder, "input.mrg"), folder, "--supervised", *way)


def learn_from(path: Path, folder: Path, *options: str) -> int:
    """`hankel learn`, which writes a model or none."""
    out = folder / "learnt.sapwood"
    out.unlink(missing_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few strings are no reason to trust anything
        status = run("hankel", "learn", path, "-o", out, "--states", 2, "--json", *options)
    assert out.exists() == (status == 0)
    return status


def convert_structures(data: bytes, folder: Path) -> int:
    """RNA structures to trees, or trees to structures, and what was written back again."""
    there, back = folder / "there", folder / "back"
    for old in (there, back):
        old.unlink(missing_ok=True)
    status = run("data", "convert", "rna", put(data, folder, "input"), "-o", there)
    assert there.exists() == (status == 0)
    if status == 0 and there.read_bytes():
        run("data", "convert", "rna", there, "-o", back, expects=(0,))
    return status


def use(model: sw.LatentGrammar | SpanNetwork | sw.Ensemble, decoder: str = "f1") -> None:
    """Parse, score and sample: none of it may do more than refuse."""
    most = 1e-6 if getattr(model, "is_probabilistic", False) else 1e4
    for words in (["dog"], ["the", "Unheard", "sees", "1990-91"]):
        with contextlib.suppress(SapwoodError):
            parse = sw.Parser(model, decoder=decoder).parse(words)
            assert sw.Tree.parse(str(parse.tree)).words() == words, str(parse.tree)
            _ = (parse.marginals, parse.k_best(2))
            if parse.log_prob is not None:
                require_log_prob(parse.log_prob, "of a parse", at_most=1e4)
        with contextlib.suppress(SapwoodError):
            require_log_prob(model.log_prob(words), "of a sentence", at_most=most)
    with contextlib.suppress(SapwoodError):
        for value in model.log_probs(seeds.bank()[:3]):
            require_log_prob(float(value), "of a tree", at_most=most)
    if not isinstance(model, FeatureGrammar | SpanNetwork):
        with contextlib.suppress(SapwoodError):
            model.sample(2, seed=0)


def run(*arguments: object, expects: tuple[int, ...] = (0, 1, 2)) -> int:
    """Run a command as a user would, but let through what it does not explain."""
    with captured():
        try:
            command()(["--debug", *map(str, arguments)], prog_name="sapwood")
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        except OSError as error:  # the command line explains those that say why
            if not error.strerror:
                raise
            status = 1
        except SapwoodError:
            status = 1
    assert status in expects, f"exit status {status}"
    return status


@cache
def command() -> Callable[..., None]:
    """The command line, put together once: it takes longer than most of what it runs here."""
    return typer.main.get_command(app)


@contextlib.contextmanager
def captured() -> Iterator[None]:
    """Stdout and stderr that can hold what real ones can, and are thrown away."""
    with (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8") as out,
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace") as err,
        patch.multiple(sys, stdout=out, stderr=err),
    ):
        yield
        out.flush()


def parse_file(data: bytes, folder: Path) -> int:
    """Parse sentences."""
    layout = ((), ("--scores",), ("--json",), ("--k-best", "2"))[len(data) % 4]
    return run("parse", model_path(folder), put(data, folder, "input.txt"), "--jobs", 1, *layout)


def parse_raw(data: bytes, folder: Path) -> int:
    """Parse sentences that have to be tokenised."""
    lines = put(data, folder, "input.txt")
    return run("parse", model_path(folder), lines, "--raw", "--jobs", 1)


def read_surprisal(data: bytes, folder: Path) -> int:
    """`surprisal` of tokens, of running text, and of the regions of an experiment."""
    layout = ((), ("--raw", "--restart", "1e-4"), ("--join",), ("--join", "--json"))[len(data) % 4]
    lines = put(data, folder, "input.txt")
    return run("surprisal", model_path(folder), lines, "--jobs", 1, *layout)


def parse_given(data: bytes, folder: Path, option: str) -> int:
    """Parse lines with given tags or brackets."""
    layout = ((), ("--scores",), ("--json",), ("--k-best", "2"))[len(data) % 4]
    lines = put(data, folder, "input.txt")
    return run("parse", model_path(folder), lines, option, "--jobs", 1, *layout)


def tokenise(data: bytes, folder: Path) -> None:
    """Tokenise text: words are never empty, and hold no blank."""
    for line in data.decode("utf-8", "replace").splitlines():
        words = tokenizer()(line)
        assert all(split_words(word) == [word] for word in words), words


@cache
def tokenizer() -> PennTokenizer:
    """One that knows the words of the small trees."""
    return PennTokenizer(seeds.bank().inventory.words)


def read_words(data: bytes, folder: Path) -> None:
    """The words of trees or of CoNLL-U, whichever it is."""
    for words in read_tree_words(put(data, folder, "input")):
        assert all(split_words(word) == [word] for word in words), words


def read_dependencies(data: bytes, folder: Path) -> None:
    """Read CoNLL-U, strictly or not: what was read comes back, is lifted and lowered, and drawn."""
    skipped: list[CorpusError] | None = [] if len(data) % 2 else None
    bank = sw.read_arcs(put(data, folder, "input.conllu"), skipped=skipped)
    for arcs in bank[:3]:
        assert sw.Arcs.parse(str(arcs)) == arcs
        heads, relations = lift_arcs(
            arcs.heads, [name.replace(LIFTED, "") for name in arcs.relations]
        )
        assert lower_arcs(heads, relations)[0] == list(arcs.heads)
        _ = (arcs.draw(), arcs.to_svg(), arcs.to_latex())


def evaluate_dependencies(data: bytes, folder: Path) -> int:
    """Compare two files of arcs."""
    gold, _, predicted = data.partition(CUT)
    paths = put(gold, folder, "gold.conllu"), put(predicted, folder, "predicted.conllu")
    return run("depend", "evaluate", *paths, "--json")


def convert_dependencies(data: bytes, folder: Path) -> int:
    """Make arcs of trees or of arcs, whichever it is, and lift them."""
    return run("depend", "convert", put(data, folder, "input"), *(["--lift"] * (len(data) % 2)))


def count_words_of(data: bytes, folder: Path) -> None:
    """Text for language models."""
    sw.KneserNey(2).fit(put(data, folder, "text.txt"))


def read_arpa_file(data: bytes, folder: Path) -> None:
    """A language model of another tool, and a sentence by it."""
    path = put(data, folder, "model.arpa")
    with open_text(path) as file:
        read_arpa(file, str(path)).log_prob(["a", "dog"])


def read_counts(data: bytes, folder: Path) -> None:
    """A file of counts, and a model of them."""
    sw.KneserNey(2).fit(load_counts(put(data, folder, "counts.parquet")))


def recognise(data: bytes, folder: Path) -> None:
    """What a text holds."""
    lines = data.decode("utf-8", "replace").split("\n")
    for n in range(1, len(lines) + 1):
        kind_of(lines[:n])


def count_trees(data: bytes, folder: Path) -> int:
    """`stats` of trees."""
    return run(
        "stats", put(data, folder, "input.mrg"), "--json", *(["--skip-bad"] * (len(data) % 2))
    )


def split_trees(data: bytes, folder: Path) -> int:
    """`split` of trees, into new files."""
    for path in folder.glob("split-*"):
        path.unlink()
    return run("split", put(data, folder, "input.mrg"), "-o", f"{folder}/split-", "--by", "order")


def score_file(data: bytes, folder: Path) -> int:
    """Score sentences or trees."""
    return run("score", model_path(folder), put(data, folder, "input.txt"), "--jobs", 1)


def unmix_file(data: bytes, folder: Path) -> int:
    """Learn a model of hidden trees from sentences."""
    family = ("pcfg-ie", "dep-ies")[len(data) % 2]
    return run("unmix", family, put(data, folder, "input.txt"), "--json")


def evaluate_files(data: bytes, folder: Path) -> int:
    """Compare two files of trees."""
    gold, _, predicted = data.partition(CUT)
    paths = put(gold, folder, "gold.mrg"), put(predicted, folder, "predicted")
    return run("evaluate", *paths, "--json", "--errors")


LINES = b"the dog sleeps .\n\na cat sees it\n"


@cache
def interrupted_parse() -> tuple[bytes, bytes]:
    """The part and its note after the first of three lines."""
    write, written = UnfinishedOutput.write, []

    def write_one(part: UnfinishedOutput, record: str) -> None:
        if written:
            raise KeyboardInterrupt
        written.append(record)
        write(part, record)

    with tempfile.TemporaryDirectory() as name, patch.object(UnfinishedOutput, "write", write_one):
        folder = Path(name)
        run(*_resumed(folder), expects=(130,))
        return (folder / "out.mrg.part").read_bytes(), (folder / "out.mrg.part.json").read_bytes()


def _resumed(folder: Path) -> tuple[object, ...]:
    lines = put(LINES, folder, "input.txt")
    out = folder / "out.mrg"
    return "parse", model_path(folder), lines, "-o", out, "--resume", "--jobs", 1


def resume_parse(data: bytes, folder: Path) -> int:
    """Go on with a spoilt `OUT.part`: refused, or the output has a record for each line."""
    part, _, note = data.partition(CUT)
    out = folder / "out.mrg"
    out.unlink(missing_ok=True)
    put(part, folder, "out.mrg.part")
    put(note, folder, "out.mrg.part.json")
    status = run(*_resumed(folder))
    assert out.exists() == (status == 0)
    assert status or out.read_bytes().count(b"\n") == LINES.count(b"\n")
    return status


def resume_em(data: bytes, folder: Path) -> None:
    """Go on with a training from a spoilt checkpoint."""
    use(seeds.learner(put(data, folder, "checkpoint")).fit(seeds.bank(), seeds.dev()).model_)


def read_stamp(data: bytes, folder: Path) -> None:
    """Look for a corpus that was fetched before; damage means fetching it again."""
    put(data, folder, fetch.STAMP)
    put(b"abc", folder, "train.mrg")
    with patch.object(fetch, "_fingerprint", lambda entry: "0" * 64):
        fetch._already_there(fetch.find_corpus("ptb-sample"), folder)


def read_registry(data: bytes, folder: Path) -> None:
    """Read the tables of corpora."""
    corpora, _, files = data.partition(CUT)
    tables = folder / "registry_data"
    tables.mkdir(exist_ok=True)
    put(corpora, tables, "corpora.tsv")
    put(files, tables, "toy.tsv")
    fetch._registry.cache_clear()
    try:
        with patch.object(fetch, "files", lambda package: folder):
            entries = fetch.list_corpora()
            _ = [(entry.as_dict(), entry.split_of("b")) for entry in entries]
    finally:
        fetch._registry.cache_clear()


def model_path(folder: Path) -> Path:
    """A right model for commands that need one."""
    path = folder / "right.sapwood"
    if not path.exists():
        path.write_bytes(seeds.model_files()["em"])
    return path


# -- the registry ---------------------------------------------------------------------------------


TREES = spoilt(seeds.TREES, *seeds.TREES.splitlines(), made_up=bracket_text)
GOLD = spoilt(seeds.TREES)
ONE_TREE = spoilt(*seeds.TREES.splitlines())
TEXT = short(spoilt("the dog sleeps .\na cat sees it\n\nKim\n", made_up=sentences))
RAW_TEXT = short(spoilt(seeds.RAW, made_up=sentences), 120)
TEXT_OR_TREES = short(spoilt(seeds.TREES, "the dog\n", made_up=sentences))
SURPRISAL_TEXT = short(
    spoilt("The dog\tsleeps.\n\n\ta cat\t\tsees it\t\nKim\n", seeds.RAW, made_up=sentences), 120
)
SHORT_TEXT = spoilt("the dog sleeps\na cat sees\nthe dog\n" * 9, made_up=sentences)
RNA_TREES = "(P (QG (OG G) (S (U A) (U A))) (CC C))\n(S (U A) (P (QG (OG G) (U A)) (CU U)))\n"
ARCS = spoilt(seeds.ARCS)
PARSED = spoilt(seeds.JSON_LINES)
PARTIAL = short(spoilt(requests.LINES, *requests.LINES.splitlines()))
STRINGS = short(spoilt(given.PARTIAL_STRINGS), 200)
TAGGED = short(spoilt(requests.TAGGED))
TABLES = paired(spoilt(seeds.REGISTRY), spoilt(seeds.FILES))
COMPRESS = {".gz": partial(gzip.compress, mtime=0), ".xz": lzma.compress, ".bz2": bz2.compress}


def _readers() -> Iterator[Reader]:
    yield Reader("brackets", TREES, read_brackets, 230)
    for ending, compress in COMPRESS.items():
        read = partial(read_brackets, ending=ending)
        yield Reader(f"brackets{ending}", packed(compress, TREES), read, 10)
    yield Reader("tree", ONE_TREE, read_one_tree, 150)
    yield Reader("grammar", spoilt(seeds.GRAMMAR), read_grammar, 12)
    yield Reader("sentences.parse", TEXT, parse_file, 15)
    yield Reader("sentences.raw", RAW_TEXT, parse_raw, 10)
    yield Reader("sentences.surprisal", SURPRISAL_TEXT, read_surprisal, 10)
    yield Reader("sentences.tagged", TAGGED, partial(parse_given, option="--tagged"), 5)
    yield Reader("sentences.partial", PARTIAL, partial(parse_given, option="--partial"), 5)
    for kind in requests.KINDS:
        read = partial(requests.ask, kind=kind)
        yield Reader(f"constraints.{kind}", requests.random_request, read, 10)
    for name, make in (("partial", PARTIAL), ("tagged", TAGGED)):
        read = partial(requests.read_given_lines, tagged=name == "tagged")
        yield Reader(f"constraints.{name}", make, read, 10)
    yield from (
        Reader("arcs.partial", spoilt(given.PARTIAL_ARCS), given.read_partial_arcs, 10),
        Reader("strings.partial", STRINGS, given.read_partial_strings, 10),
    )
    yield Reader("tokenizer", RAW_TEXT, tokenise, 40)
    yield Reader("words", spoilt(seeds.CONLLU, seeds.TREES), read_words, 40)
    yield Reader("arcs", spoilt(seeds.CONLLU, seeds.ARCS), read_dependencies, 60)
    yield Reader("arcs.evaluate", paired(ARCS, ARCS), evaluate_dependencies, 10)
    yield Reader("arcs.convert", spoilt(seeds.ARCS, seeds.TREES), convert_dependencies, 10)
    yield Reader("kind", spoilt(seeds.CONLLU, seeds.TREES, seeds.JSON_LINES), recognise, 20)
    yield Reader("stats", TREES, count_trees, 10)
    yield Reader("split", TREES, split_trees, 10)
    yield Reader("sentences.score", TEXT_OR_TREES, score_file, 12)
    yield Reader("sentences.unmix", SHORT_TEXT, unmix_file, 10)
    yield Reader("evaluate", paired(GOLD, GOLD), evaluate_files, 12)
    yield Reader("evaluate.json", paired(GOLD, PARSED), evaluate_files, 10)
    for name, original in seeds.NOTATIONS.items():
        read = partial(read_notation, notation=name)
        yield Reader(f"notation.{name}", spoilt(original), read, 12)
    yield Reader("notation", spoilt(*seeds.NOTATIONS.values()), read_notation, 20)
    yield Reader("encoding", encoded, read_encoded, 20)
    for name, original in seeds.ORIGINALS.items():
        read = partial(convert_with, fetch.CONVERTERS[name][0])
        yield Reader(f"convert.{name}", spoilt(original), read, 10)
    for kind in ("plain", "em", "spectral", "crf", "network", "pretrained", "ensemble"):
        yield Reader(f"model.{kind}", spoilt_model(kind), read_model, 10)
    for kind in ("arcs", "rerank"):
        yield Reader(f"model.{kind}", spoilt_model(kind), read_arc_model, 10)
    yield Reader("model.uniform", spoilt_model("uniform"), read_hidden_trees, 10)
    for kind in ("dependency.em", "dependency.spectral", "hmm"):
        yield Reader(f"model.{kind}", spoilt_model(kind), read_latent_arcs, 10)
    yield Reader("model.eigenwords", spoilt_model("eigenwords"), read_vectors, 10)
    for kind in ("kn", "mixture", "kn-latent"):
        yield Reader(f"model.{kind}", spoilt_model(kind), read_language_model, 10)
    for kind in ("wcfg", "wfa"):
        yield Reader(f"model.{kind}", spoilt_model(kind), read_string_model, 5)
    yield Reader("hankel.strings", short(spoilt(seeds.STRINGS)), learn_strings, 5)
    yield Reader("hankel.trees", spoilt(seeds.TREES), learn_brackets, 5)
    yield Reader("rna", spoilt(seeds.STRUCTURES, RNA_TREES), convert_structures, 20)
    yield Reader("text", spoilt(seeds.TEXT), count_words_of, 20)
    yield Reader("arpa", spoilt(seeds.ARPA), read_arpa_file, 40)
    yield Reader("counts", spoilt_counts, read_counts, 10)
    yield Reader("part", spoilt_part, resume_parse, 10)
    yield Reader("checkpoint", spoilt_checkpoint, resume_em, 10)
    yield Reader("stamp", spoilt_json(seeds.STAMP), read_stamp, 10)
    yield Reader("registry", TABLES, read_registry, 10)


def _encoder_readers() -> Iterator[Reader]:
    for family in ("bert", "modernbert"):
        read = partial(encoders.read_encoder, family=family)
        yield Reader(f"encoder.{family}", encoders.spoilt_folder(family), read, 10)
    yield Reader("encoder.vectors", spoilt(encoders.VECTORS), encoders.read_static_vectors, 10)


def _audit_readers() -> Iterator[Reader]:
    yield Reader("audit.places", spoilt(*audits.PLACES), audits.read_places, 10)
    yield Reader("audit.fold", spoilt(audits.fold()), audits.read_fold, 10)
    for name, text, made in (
        ("arc", audits.CONLLU, audits.ARC_DECISIONS),
        ("tree", audits.BRACKETS, audits.TREE_DECISIONS),
    ):
        apply = partial(audits.apply_to, text)
        yield Reader(f"audit.{name}-decisions", spoilt_json(made), apply, 10)


READERS = {reader.name: reader for reader in (*_readers(), *_encoder_readers(), *_audit_readers())}


def input_of(reader: Reader, seed: int, index: int, most_edits: int = 3) -> bytes:
    """The input of that number: the same wherever and whenever it is asked for."""
    rng = random.Random(f"{seed} {reader.name} {index}")
    n_edits = rng.choice((1, 1, 2, 3))
    return reader.make(rng, min(n_edits, most_edits))
