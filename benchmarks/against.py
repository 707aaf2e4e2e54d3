"""Compare this checkout with another: parsing, training and starting, in CPU seconds.

Processes of the two checkouts take turns, so that other work on the machine slows both, and every
ratio is of seconds measured one after the other. Both read the same model files and texts. A ratio
above 1 says that this checkout is slower.

python benchmarks/against.py --other OLD/src --parts parsing --models em.sapwood arcs.sapwood
python benchmarks/against.py --other OLD/src --parts training --repeats 3
python benchmarks/against.py --other OLD/src --parts start --repeats 15
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import machine

HERE = Path(__file__).resolve()
SOURCES = HERE.parents[1] / "src"
MODES = ("one by one", "stream")
# Methods on the bundled trees, small enough for minutes; {arcs}, {strings} are made of the trees.
TRAINING = {
    "train pcfg": "train {trees} -o {out} --method pcfg",
    "train spectral": "train {trees} -o {out} --method spectral --states 8",
    "train em": "train {trees} -o {out} --method em --states 8 --iterations 15",
    "train cluster": "train {trees} -o {out} --method cluster --states 8",
    "train pivot": "train {trees} -o {out} --method pivot --states 8",
    "train pivot-em": "train {trees} -o {out} --method pivot-em --states 8",
    "train crf": "train {trees} -o {out} --method crf",
    "train encoder": "train {trees} -o {out} --method encoder --iterations 3",
    "train best": "train {trees} -o {out} --budget 60s",
    "depend train first": "depend train {arcs} -o {out} --method first",
    "depend train second": "depend train {arcs} -o {out} --method second --passes 3",
    "depend train latent": "depend train {arcs} -o {out} --method latent --states 4",
    "depend train rerank": "depend train {arcs} -o {out} --method rerank --states 4",
    "depend train best": "depend train {arcs} -o {out} --budget 90s",
    "depend train spectral": "depend train {arcs} -o {out} --method spectral --seen both",
    "depend train em": "depend train {arcs} -o {out} --method em --states 4 --children",
    "hankel learn": "hankel learn {trees} -o {out} --supervised --states 8",
    "hankel learn direct": "hankel learn {pairs} -o {out} --states 2 --solver direct",
    "hankel learn admm": "hankel learn {pairs} -o {out} --states 2",
    "hankel learn em": "hankel learn {strings} -o {out} --method em --states 3",
    "hankel learn wfa": "hankel learn {strings} -o {out} --method wfa --states 8",
    "lm train kn": "lm train {strings} -o {out} --method kn",
    "lm train kn-mod": "lm train {strings} -o {out} --method kn-mod",
    "lm train kn-latent": "lm train {strings} -o {out} --method kn-latent --states 32",
    "lm train em": "lm train {strings} -o {out} --method em --states 32",
    "lm train pivot": "lm train {strings} -o {out} --method pivot --states 16",
    "lm train pivot-em": "lm train {strings} -o {out} --method pivot-em --states 16",
    "lm train mix": "lm train {strings} -o {out} --method mix --states 32",
    "embed cca": "embed {strings} -o {out} --dimension 20",
    "embed two-step": "embed {strings} -o {out} --dimension 20 --method two-step",
    "embed bigram": "embed {strings} -o {out} --dimension 20 --method bigram",
    "embed lr-mvl": "embed {strings} -o {out} --dimension 20 --method lr-mvl",
    "unmix pcfg-ie": "unmix pcfg-ie {pairs} -o {out} --states 2 --refine em",
    "unmix dep-ies": "unmix dep-ies {pairs} -o {out} --refine moments",
}
MOST_NAMES = 6  # of parts of files that differ
STARTS = {
    "import sapwood": ("-c", "import sapwood"),
    "sapwood --help": ("-m", "sapwood", "--help"),
    "sapwood train --help": ("-m", "sapwood", "train", "--help"),
    "sapwood parse --help": ("-m", "sapwood", "parse", "--help"),
}
HEADER = ("what", "other, CPU s (least / median)", "this", "ratio of least", "median ratio", "same")


def environment_of(sources: Path) -> dict[str, str]:
    """The environment of a process that imports Sapwood from a folder of sources."""
    return {**os.environ, "PYTHONPATH": str(sources), "PYTHONHASHSEED": "0"}


def is_chosen(name: str, given: argparse.Namespace) -> bool:
    """Whether a row of training or starting is wanted."""
    return not given.only or any(part in name for part in given.only)


def row(name: str, pairs: list[tuple[float, float]], same: str) -> tuple[str, ...]:
    """A line of the table: seconds of both checkouts, and the ratios of this one to the other."""
    other, this = (machine.summary(column) for column in zip(*pairs, strict=True))
    middle = median(new / old for old, new in pairs)
    return name, str(other), str(this), f"{this.least / other.least:.3f}", f"{middle:.3f}", same


# -- parsing --------------------------------------------------------------------------------------


def serve_passes(model: str, sentences_file: str, decoder: str) -> None:
    """Answer every line of stdin, a mode, with CPU seconds and hashes of the trees of one pass."""
    import sapwood as sw

    if Path(sw.__file__).parents[1] != Path(os.environ["PYTHONPATH"]):
        sys.exit(f"error: {sw.__file__} is not of {os.environ['PYTHONPATH']}")
    sentences = json.loads(Path(sentences_file).read_text(encoding="utf-8"))
    loaded = sw.load(model)
    is_of_arcs = isinstance(loaded, sw.ArcModel)
    parser: Any = sw.ArcParser(loaded) if is_of_arcs else sw.Parser(loaded, decoder=decoder)
    passes: dict[str, Callable[[], Any]] = {
        "one by one": lambda: map(parser.parse, sentences),
        "stream": lambda: parser.parse_many(sentences),
    }
    for line in sys.stdin:
        began = process_time()
        parses = passes[line.strip()]()
        trees = [str(parse.arcs if is_of_arcs else parse.tree) for parse in parses]
        seconds = process_time() - began
        hashes = [sha256(tree.encode()).hexdigest()[:16] for tree in trees]
        print(json.dumps([seconds, hashes]), flush=True)


class ParsingProcess:
    """A process of one checkout that has loaded a model and parses when it is asked to."""

    def __init__(self, sources: Path, model: Path, sentences: Path, decoder: str) -> None:
        command = [sys.executable, str(HERE), "--serve", str(model), str(sentences), decoder]
        self._process = subprocess.Popen(
            command, env=environment_of(sources), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def parse_all(self, mode: str) -> tuple[float, list[str]]:
        """CPU seconds and hashes of the trees of one pass over the sentences."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{mode}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit("error: a parsing process has ended")
        seconds, hashes = json.loads(answer)
        return seconds, hashes

    def end(self) -> None:
        """End the process."""
        self._process.communicate()


def parsing_rows(given: argparse.Namespace, folder: Path) -> list[tuple[str, ...]]:
    """Both modes of every model: fresh processes in each round, passes in turns."""
    gold = machine.gold_trees(given.corpus, "dev", given.limit)
    sentences = folder / "sentences.json"
    sentences.write_text(json.dumps([tree.words() for tree in gold]), encoding="utf-8")
    rows = []
    for model in given.models:
        pairs: dict[str, list[tuple[float, float]]] = {mode: [] for mode in MODES}
        n_same = dict.fromkeys(MODES, 0)
        for _ in range(given.rounds):
            both = [ParsingProcess(sources, model.resolve(), sentences, given.decoder)
                    for sources in (given.other, given.this)]  # fmt: skip
            for mode in MODES:  # kernels are loaded, trees are compared
                (_, old), (_, new) = (one.parse_all(mode) for one in both)
                n_same[mode] = sum(a == b for a, b in zip(old, new, strict=True))
            for index in range(given.repeats):
                for mode in MODES:
                    order = both if index % 2 == 0 else both[::-1]
                    first, second = (one.parse_all(mode)[0] for one in order)
                    pairs[mode].append((first, second) if index % 2 == 0 else (second, first))
            for one in both:
                one.end()
        for mode in MODES:
            same = f"{n_same[mode]} of {len(gold)} trees"
            rows.append(row(f"parse, {model.stem}, {mode}", pairs[mode], same))
            print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    return rows


# -- training and starting ------------------------------------------------------------------------


def cpu_of(
    command: tuple[str, ...], sources: Path
) -> tuple[float, subprocess.CompletedProcess[str]]:
    """CPU seconds of a fresh process, and how it ended."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        (sys.executable, *command), env=environment_of(sources), check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done


def texts_to_learn_from(folder: Path) -> dict[str, Path]:
    """The bundled trees, their strings and dependencies, and strings of two words, as files."""
    from sapwood.constituency.data.treebank import sample_path

    found = {"trees": folder / "trees.mrg"}
    found["trees"].write_bytes(gzip.decompress(sample_path("train").read_bytes()))
    for name, command in (("strings", ("words",)), ("arcs", ("depend", "convert"))):
        found[name] = folder / f"{name}.txt"
        full = ("-m", "sapwood", *command, str(found["trees"]), "-o", str(found[name]))
        _, done = cpu_of(full, SOURCES)
        done.check_returncode()
    few = ["a b a", "b a b", "a a b", "b b a", "a b b", "a b", "b a", "a a", "a b a b"]
    found["pairs"] = folder / "pairs.txt"
    found["pairs"].write_text("\n".join(few * 200) + "\n", encoding="utf-8")
    return found


def training_rows(given: argparse.Namespace, folder: Path) -> list[tuple[str, ...]]:
    """Every method, one job; whether the two model files are equal."""
    texts, rows = texts_to_learn_from(folder), []
    for name, template in TRAINING.items():
        if not is_chosen(name, given):
            continue
        files = {
            sources: folder / f"{k}.model" for k, sources in enumerate((given.other, given.this))
        }
        pairs: list[tuple[float, float]] = []
        failed = ""
        for index in range(given.repeats):
            seconds = {}
            for sources in list(files)[:: 1 if index % 2 == 0 else -1]:
                arguments = template.format(**texts, out=files[sources]).split()
                jobs = () if arguments[0] == "unmix" else ("--jobs", "1")
                command = ("-m", "sapwood", *arguments, "--force", *jobs)
                seconds[sources], done = cpu_of(command, sources)
                if done.returncode:
                    failed = f"{sources}: {done.stderr.strip().splitlines()[-1]}"
            if failed:
                break
            pairs.append((seconds[given.other], seconds[given.this]))
        cells = (name, "-", "-", "-", "-", failed) if failed else row(
            name, pairs, differences(*files.values())
        )  # fmt: skip
        rows.append(cells)
        print(*cells, sep="  ", file=sys.stderr, flush=True)
    return rows


def differences(one: Path, other: Path) -> str:
    """What differs between two model files: the names in their headers, and those of arrays."""
    if one.read_bytes() == other.read_bytes():
        return "all bytes"
    parts, other_parts = parts_of(one), parts_of(other)
    names = sorted(name for name in parts.keys() | other_parts.keys()
                   if parts.get(name) != other_parts.get(name))  # fmt: skip
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"all but {', '.join(names[:MOST_NAMES])}{more} (of {len(parts)})"


def parts_of(path: Path) -> dict[str, Any]:
    """The entries of a model file's header and hashes of its arrays, by dotted names."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    whole = json.loads(header.pop("__metadata__")["sapwood"])
    del whole["sha256"]  # of all the rest
    parts: dict[str, Any] = {}
    for name, spec in header.items():
        values = sha256(body[slice(*spec["data_offsets"])]).hexdigest()
        parts[f"array {name}"] = (spec["dtype"], spec["shape"], values)
    flatten("", whole, parts)
    return parts


def flatten(name: str, value: Any, into: dict[str, Any]) -> None:
    """Write what nested dictionaries hold into one dictionary, under dotted names."""
    if not isinstance(value, dict):
        into[name] = value
        return
    for key, part in value.items():
        flatten(f"{name}.{key}" if name else key, part, into)


def start_rows(given: argparse.Namespace) -> list[tuple[str, ...]]:
    """Import and help, in fresh processes."""
    rows = []
    for name, command in STARTS.items():
        if not is_chosen(name, given):
            continue
        pairs = []
        for index in range(given.repeats + 1):
            order = (given.other, given.this)[:: 1 if index % 2 == 0 else -1]
            seconds = {sources: cpu_of(command, sources)[0] for sources in order}
            pairs.append((seconds[given.other], seconds[given.this]))
        rows.append(row(name, pairs[1:], ""))  # the first run writes byte code
    return rows


def main() -> None:
    """Print one table."""
    if sys.argv[1:2] == ["--serve"]:
        return serve_passes(*sys.argv[2:])
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--other", type=Path, required=True, help="sources of the other checkout")
    options.add_argument("--this", type=Path, default=SOURCES, help="sources, if not of this one")
    options.add_argument("--parts", nargs="+", choices=("parsing", "training", "start"),
                         default=("parsing", "training", "start"))  # fmt: skip
    options.add_argument("--models", nargs="+", type=Path, default=[], help="for parsing")
    options.add_argument("--corpus", default="ptb")
    options.add_argument("--limit", type=int, help="first sentences of dev only")
    options.add_argument("--decoder", default="f1")
    options.add_argument(
        "--only", nargs="+", help="rows of training and starting with one of these in their names"
    )
    options.add_argument("--rounds", type=int, default=3, help="fresh pairs of parsing processes")
    options.add_argument("--repeats", type=int, default=5, help="in a round")
    given = options.parse_args()
    given.other, given.this = given.other.resolve(), given.this.resolve()
    machine.print_facts(f"This checkout against {given.other.parent.name}")
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as name:
        if "parsing" in given.parts:
            rows += parsing_rows(given, Path(name))
        if "training" in given.parts:
            rows += training_rows(given, Path(name))
        if "start" in given.parts:
            rows += start_rows(given)
    machine.print_table(HEADER, rows)


if __name__ == "__main__":
    main()
