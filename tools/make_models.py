"""Make the models that come with Sapwood again: `english` and `english-ud`.

python tools/make_models.py                     both, into src/sapwood/models_data
python tools/make_models.py --only english-ud   one of them
python tools/make_models.py --check             make both and compare them with those that are there

Corpora are fetched by `sapwood data`, or read from the folder that SAPWOOD_DATA names. What they
are joined to has a known checksum. Trainings are the commands that are printed; their files are
kept in build/models, and a training whose file is there with the same settings is not run again.
The files do not depend on the number of threads. On another kind of processor, sums may be rounded
in another way, and trained weights then differ in their last digits.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import sapwood as sw
from sapwood.constituency.learn.compress import Compression, compress_mix
from sapwood.core.model_card import with_provenance
from sapwood.corpora.fetch import basic_columns, fetch, find_corpus
from sapwood.dependency.learn.compress import ArcCompression, compress_arcs

try:
    from tools.join_treebanks import join_labels
except ImportError:  # run as a script
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tools.join_treebanks import join_labels

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "src" / "sapwood" / "models_data"
PARTS = ("train", "dev")


@dataclass(frozen=True)
class Corpus:
    """A corpus that models learn from, and what is said of it on their cards."""

    name: str  # in the registry of `sapwood data`
    folder: str  # below SAPWOOD_DATA
    title: str
    licence: str
    attribution: str
    copies: int = 1  # in the joined treebank

    @property
    def source(self) -> tuple[str, str]:
        """The page of the corpus, and the commit that is read."""
        page, commit = find_corpus(self.name).source.split("/tree/")
        return page, commit


GUM = Corpus(
    "gum-open", "gum_open", "GUM, six genres of open texts",
    "annotations CC BY 4.0; texts CC BY 4.0, CC BY 2.5 and CC BY-SA 3.0",
    "Amir Zeldes and others, The Georgetown University Multilayer Corpus; texts from Wikipedia, "
    "Wikinews, Wikivoyage, academic articles and court hearings",
    copies=3,
)  # fmt: skip
CRAFT = Corpus(
    "craft", "craft", "CRAFT, the Colorado Richly Annotated Full-Text corpus", "CC BY 3.0",
    "K. Bretonnel Cohen, Karin Verspoor, Michael Bada, Lawrence E. Hunter and others, University "
    "of Colorado; articles from the open-access part of PubMed Central",
)  # fmt: skip
EWT = Corpus(
    "ud-english-ewt", "ud_english_ewt", "UD English EWT, the English Web Treebank",
    "CC BY-SA 4.0",
    "Natalia Silveira, Timothy Dozat, Christopher Manning, Sebastian Schuster, Nathan Schneider, "
    "Amir Zeldes and others, Universal Dependencies; words from the English Web Treebank (LDC)",
)  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """All settings of both models.

    Attributes
    ----------
    binarisation
        Options of both trainings on trees, whose members then share one plain grammar.
    mix, small, arcs
        Options of the trainings: of the mix whose networks are taken, of the small grammar with
        probabilities, and of the dependency parser.
    grammar_weight
        The weight of the small grammar beside the networks, in parsing.
    compression, arc_compression
        What is dropped.
    joined
        SHA-256 of the files that are learnt from; empty for any.
    """

    binarisation: tuple[str, ...] = ("--binarise", "head", "--horizontal", "1")
    mix: tuple[str, ...] = ("--method", "best")
    small: tuple[str, ...] = ("--method", "em", "--states", "4")
    arcs: tuple[str, ...] = ("--method", "best", "--budget", "none")
    grammar_weight: float = 0.0
    compression: Compression = field(
        default_factory=lambda: Compression(
            least_words=2, least_word_vectors=8, least_forms=128, least_ratio=0.01
        )
    )
    arc_compression: ArcCompression = field(default_factory=lambda: ArcCompression(least_forms=8))
    joined: dict[str, str] = field(
        default_factory=lambda: {
            "joined.mrg": "955a8c73089b47e54424c238a54f40ddb91fd4e51b3b6874c1b6efac968e4cca",
            "ewt.conllu": "74d3d08e0bde10853adcf7e703c0d2697edd29183368f4666baf76dfb01f29db",
        }
    )


@dataclass(frozen=True)
class Workshop:
    """Where files are read and written, and how models are made."""

    work: Path
    target: Path
    recipe: Recipe
    jobs: int = 0
    # reads a part of a corpus; another one in tests
    lines: Callable[[Corpus, str], Iterable[str]] = field(default_factory=lambda: corpus_lines)

    def trees(self, corpus: Corpus, part: str) -> Iterator[sw.Tree]:
        """Trees of a part of a corpus, with shared labels."""
        from sapwood.corpora.formats import read_lines

        yield from join_labels(read_lines(self.lines(corpus, part), corpus.name, "joined"))

    def write(self, name: str, lines: Iterable[str]) -> Path:
        """Write a file that models learn from or are scored on, and check it."""
        path, expected = self.work / name, self.recipe.joined.get(name)
        self.work.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        found = sha256(path)
        if expected and found != expected:
            sys.exit(
                f"make_models: {path} has the checksum {found}, expected {expected}\n"
                "hint: the corpora are not those that the models were made from"
            )
        print(f"{name}  {path.stat().st_size:,} bytes  {found[:12]}")
        return path

    def train(self, out: str, source: str, command: tuple[str, ...]) -> Any:
        """The model of a training, which is run unless its file is there with these settings."""
        path = self.work / out
        asked = {"command": [*command, source], "of": sha256(self.work / source)}
        stamp = path.with_suffix(".settings.json")
        if path.exists() and _as_json(stamp) == asked:
            print(f"{out}  is there")
            return sw.load(path)
        print("sapwood", *command, source, "-o", out, flush=True)
        jobs = ("--jobs", str(self.jobs), "--force")
        whole = [sys.executable, "-m", "sapwood", *command, source, "-o", out, *jobs]
        done = subprocess.run(whole, cwd=self.work, check=False)
        if done.returncode:
            sys.exit(done.returncode)
        stamp.write_text(json.dumps(asked, indent=1) + "\n", encoding="utf-8")
        return sw.load(path)


def _as_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def sha256(path: Path) -> str:
    """The checksum of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def corpus_lines(corpus: Corpus, part: str) -> Iterator[str]:
    """Lines of a part of a corpus, from the folder that SAPWOOD_DATA names or from the registry."""
    home = os.environ.get("SAPWOOD_DATA")
    suffix = ".conllu" if corpus is EWT else ".mrg"
    if home:
        with lzma.open(
            Path(home) / corpus.folder / f"{part}{suffix}.xz", "rt", encoding="utf-8"
        ) as f:
            yield from f
    else:
        with fetch(corpus.name)[part].open(encoding="utf-8") as f:
            yield from f


def make_english(shop: Workshop) -> tuple[Any, dict[str, Any]]:
    """The model `english`, and its card without the facts of the file."""
    recipe = shop.recipe
    trees = {
        (corpus, part): list(shop.trees(corpus, part)) for corpus in (CRAFT, GUM) for part in PARTS
    }
    joined = [tree for corpus in (CRAFT, GUM) for tree in trees[corpus, "train"] * corpus.copies]
    shop.write("joined.mrg", map(str, joined))
    mix = shop.train("mix.sapwood", "joined.mrg", ("train", *recipe.mix, *recipe.binarisation))
    small = shop.train(
        "small.sapwood", "joined.mrg", ("train", *recipe.small, *recipe.binarisation)
    )
    networks = [member for member in mix.members if not member.has_rules]
    share = (1 - recipe.grammar_weight) / len(networks)
    whole = sw.Ensemble.of([*networks, small], [share] * len(networks) + [recipe.grammar_weight])
    model = compress_mix(whole, [tree.words() for tree in joined], recipe.compression)
    n_words = sum(len(tree.words()) for tree in joined)
    model = with_provenance(
        model, method="mix", treebanks=["gum-open", "craft"], trees=len(joined),
        tokens=n_words, tokenisation="penn", seed=0,
    )  # fmt: skip
    rows = [data_row(corpus, trees[corpus, "train"]) for corpus in (GUM, CRAFT)]
    scores = []
    for corpus in (GUM, CRAFT):
        scores += score_trees(model, corpus, trees[corpus, "dev"])
    title = "English constituents: a network and a grammar with probabilities"
    return model, {"title": title, "task": "constituents", "training_data": rows, "scores": scores}


def score_trees(model: Any, corpus: Corpus, gold: list[sw.Tree]) -> list[dict[str, Any]]:
    """F1 (EVALB) on the dev part of a treebank, as rows of a card."""
    parses = sw.Parser(model).parse_many(tree.words() for tree in gold)
    report = sw.evaluate.bracketing(gold, [parse.tree for parse in parses])
    return [score_row(corpus, len(gold), "F1", report.f1)]


def make_english_ud(shop: Workshop) -> tuple[Any, dict[str, Any]]:
    """The model `english-ud`, and its card without the facts of the file."""
    for part, name in zip(PARTS, ("ewt.conllu", "ewt-dev.conllu"), strict=True):
        shop.write(name, basic_columns(shop.lines(EWT, part)))
    parser = shop.train("ud.sapwood", "ewt.conllu", ("depend", "train", *shop.recipe.arcs))
    train, dev = (list(sw.read_arcs(shop.work / name)) for name in ("ewt.conllu", "ewt-dev.conllu"))
    words = [list(arcs.words) for arcs in train]
    model = compress_arcs(parser, words, shop.recipe.arc_compression)
    model = with_provenance(model, treebanks=["ud-english-ewt"])
    parses = sw.ArcParser(model).parse_many([list(arcs.words) for arcs in dev])
    found = sw.evaluate.attachment(dev, [parse.arcs for parse in parses])
    scores = [
        score_row(EWT, len(dev), name.upper(), found.percent(name))
        for name in ("uas", "las", "upos")
    ]
    title = "English dependencies with tags of Universal Dependencies"
    return model, {
        "title": title, "task": "dependencies", "training_data": [data_row(EWT, train)],
        "scores": scores,
    }  # fmt: skip


def data_row(corpus: Corpus, trees: list[Any]) -> dict[str, Any]:
    """A row of `training_data`: what a corpus is, and how much of it was learnt from."""
    words = [tree.words() if isinstance(tree, sw.Tree) else tree.words for tree in trees]
    page, commit = corpus.source
    return {
        "name": corpus.title, "source": page, "commit": commit, "licence": corpus.licence,
        "attribution": corpus.attribution, "trees": len(trees), "words": sum(map(len, words)),
    }  # fmt: skip


def score_row(corpus: Corpus, n: int, metric: str, value: float) -> dict[str, Any]:
    """A row of `scores`."""
    return {
        "corpus": corpus.title, "part": "dev", "sentences": n, "metric": metric,
        "value": round(float(value), 2),
    }  # fmt: skip


MAKERS = {"english": make_english, "english-ud": make_english_ud}


def make(name: str, shop: Workshop) -> Path:
    """Make a model and its card; returns the file of the model."""
    model, card = MAKERS[name](shop)
    shop.target.mkdir(parents=True, exist_ok=True)
    path = shop.target / f"{name}.sapwood"
    model.save(path, force=True)
    facts = {
        "name": name, "title": card.pop("title"), "language": "en", "task": card.pop("task"),
        "version": "1", "sapwood": sw.__version__, "bytes": path.stat().st_size,
        "sha256": sha256(path), "licence": "CC BY-SA 4.0", "command": "make models",
    }  # fmt: skip
    text = json.dumps(facts | card, indent=2, ensure_ascii=False)
    path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    print(f"{path.name}  {facts['bytes']:,} bytes  {facts['sha256']}")
    for row in card["scores"]:
        print(f"    {row['corpus']}, {row['part']}: {row['metric']} {row['value']}")
    return path


def main() -> None:
    """Make the models that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", choices=MAKERS, help="this model alone")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "models", metavar="FOLDER")
    parser.add_argument("--target", type=Path, default=TARGET, metavar="FOLDER")
    parser.add_argument("--jobs", type=int, default=0, help="threads; 0 means all cores")
    parser.add_argument("--check", action="store_true", help="compare with what is in the target")
    given = parser.parse_args()
    shop = Workshop(given.work, given.target, Recipe(), given.jobs)
    if given.check:
        shop = replace(shop, target=given.work / "made")
    differing = []
    for name in [given.only] if given.only else MAKERS:
        made = make(name, shop)
        if given.check and made.read_bytes() != (given.target / made.name).read_bytes():
            differing.append(made.name)
    if differing:
        sys.exit(f"make_models: not as they are in {given.target}: {', '.join(differing)}")


if __name__ == "__main__":
    main()
