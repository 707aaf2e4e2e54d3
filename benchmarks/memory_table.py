"""Time and memory of every command that reads data, with 1 kB, 3 MB and 300 MB of input.

    SAPWOOD_DATA=/path/to/data python benchmarks/memory_table.py
    python benchmarks/memory_table.py --sizes 3MB --only hankel --seconds 60

Each command runs in a process of its own whose address space is limited (`ulimit -v`). A command
that has taken more processor time than the limit is stopped, and the row shows the peak until then;
time and memory are those of the command and of all processes that it starts. A result, a refusal in
one line and a run in bounded memory are fine; a traceback, a death by a signal and a MemoryError
are faults. The inputs repeat the corpora, with other words in each copy of the
text. The models that `depend parse`, `lm evaluate` and others take are learnt from a small input
first.
"""

from __future__ import annotations

import argparse
import lzma
import math
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from time import sleep

PAUSE = 0.05  # seconds between two looks at a command
SIZES = {"1kB": 1_000, "20kB": 20_000, "3MB": 3_000_000, "300MB": 300_000_000}
COMMANDS = {
    "train pcfg": "train TREES -o OUT --method pcfg",
    "train em": "train TREES -o OUT --method em --states 2 --iterations 5",
    "train spectral": "train TREES -o OUT --method spectral --states 4",
    "train pivot": "train TREES -o OUT --method pivot --states 4",
    "train cluster": "train TREES -o OUT --method cluster --states 4 --iterations 2",
    "train crf": "train TREES -o OUT --method crf --iterations 1",
    "train encoder": "train TREES -o OUT --method encoder --iterations 1",
    "train best": "train TREES -o OUT --method best --budget 20s",
    "compare": "compare TREES SMALL --methods pcfg",
    "evaluate": "evaluate TREES TREES",
    "stats": "stats TREES",
    "split": "split TREES -o OUT",
    "words": "words TREES -o OUT",
    "data convert": "data convert TREES -o OUT",
    "data convert rna": "data convert rna RNA -o OUT",
    "audit": "audit TREES --fast -o OUT --jobs 1",
    "parse": "parse bundled TEXT -o OUT",
    "parse --trees": "parse bundled TREES -o OUT --trees",
    "parse --tagged": "parse bundled TAGGED -o OUT --tagged",
    "parse --partial": "parse bundled BRACKETS -o OUT --partial",
    "surprisal": "surprisal bundled TEXT --restart 1e-4",
    "surprisal of a language model": "surprisal LM TEXT",
    "score": "score bundled TEXT",
    "score --trees": "score bundled TREES --trees",
    "train on disk": "train TREES -o OUT --method pcfg --on-disk FOLDER",
    "stats --against": "stats SMALL --against TREES",
    "unmix": "unmix dep-ies TEXT",
    "embed": "embed TEXT -o OUT --dimension 8",
    "lm count": "lm count TEXT -o OUT",
    "lm train kn": "lm train TEXT -o OUT --method kn",
    "lm train em": "lm train TEXT -o OUT --method em --states 4",
    "lm train kn-mod": "lm train TEXT -o OUT --method kn-mod",
    "lm train pivot": "lm train TEXT -o OUT --method pivot --states 4",
    "lm train kn-latent": "lm train TEXT -o OUT --method kn-latent --states 4",
    "lm train mix": "lm train TEXT -o OUT --method mix --states 4",
    "lm evaluate": "lm evaluate LM TEXT",
    "lm score": "lm score LM TEXT",
    "lm convert": "lm convert ARPA -o OUT",
    "hankel score": "hankel score WCFG LETTERS",
    "hankel parse": "hankel parse WCFG LETTERS",
    "hankel learn": "hankel learn TEXT -o OUT --states 4",
    "hankel learn factored": "hankel learn TEXT -o OUT --states 4 --solver factored",
    "hankel learn em": "hankel learn TEXT -o OUT --states 4 --method em",
    "hankel learn wfa": "hankel learn TEXT -o OUT --states 4 --method wfa",
    "hankel learn trees": "hankel learn TREES -o OUT --states 4 --supervised",
    "depend train first": "depend train ARCS -o OUT --method first --passes 1",
    "depend train second": "depend train ARCS -o OUT --method second --passes 1",
    "depend train spectral": "depend train ARCS -o OUT --method spectral --states 4",
    "depend train em": "depend train ARCS -o OUT --method em --states 4 --iterations 1",
    "depend train latent": "depend train ARCS -o OUT --method latent --passes 1",
    "depend train rerank": "depend train ARCS -o OUT --method rerank --passes 1",
    "depend parse": "depend parse PARSER ARCS -o OUT",
    "depend parse --text": "depend parse PARSER TEXT -o OUT --text",
    "depend score": "depend score LATENT ARCS",
    "depend rerank": "depend rerank RERANKER LISTS -o OUT",
    "depend evaluate": "depend evaluate ARCS ARCS",
    "depend convert": "depend convert ARCS -o OUT",
    "depend draw": "depend draw ARCS -o OUT",
    "depend audit": "depend audit ARCS --fast -o OUT --jobs 1",
}
# Models that commands take, by the word in their lines.
MODELS = {
    "PARSER": "depend train ARCS -o PARSER --method first --passes 1",
    "LATENT": "depend train ARCS -o LATENT --method spectral --states 4",
    "RERANKER": "depend train ARCS -o RERANKER --method rerank --passes 1",
    "LM": "lm train TEXT -o LM --method kn",
    "WCFG": "hankel learn LETTERS -o WCFG --states 2 --method em",
}
LETTERS = b"".join(b"a " * n + b"b " * m + b"\n" for n in range(1, 6) for m in range(1, 6))
LISTS = "depend parse PARSER ARCS -o LISTS --n-best 5"


def main() -> None:
    """Print a row for each command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--sizes", nargs="+", default=["1kB", "3MB", "300MB"], choices=list(SIZES))
    parser.add_argument("--only", nargs="+", default=[""], help="commands that start so")
    parser.add_argument("--seconds", type=float, default=60.0, help="of processor time for each")
    parser.add_argument("--gigabytes", type=float, default=8.0, help="of address space")
    options = parser.parse_args()
    wanted = {title: line for title, line in COMMANDS.items() if title.startswith((*options.only,))}
    with tempfile.TemporaryDirectory(prefix="memory-") as name:
        folder = Path(name)
        words = {word for line in wanted.values() for word in line.split()}
        known = make_models(folder, words) | {"OUT": folder / "out", "FOLDER": folder}
        print("| command | input | CPU seconds | peak MB | outcome |")
        print("|---|---:|---:|---:|---|")
        for size in options.sizes:
            for title, line in wanted.items():
                inputs = known | make_inputs(folder, size, set(line.split()), known)
                given = [str(inputs.get(word, word)) for word in line.split()]
                seconds, peak, outcome = run(given, options.seconds, options.gigabytes)
                print(f"| {title} | {size} | {seconds:.1f} | {peak:,.0f} | {outcome} |", flush=True)
                for old in (*folder.glob("out*"), *folder.glob("treebank-*")):
                    subprocess.run(["rm", "-rf", str(old)], check=True)
            for old in folder.glob(f"*-{size}.*"):
                old.unlink()


def make_models(folder: Path, wanted: set[str]) -> dict[str, Path]:
    """Models, lists of trees and a small treebank, learnt from little data for the other rows."""
    needed = {"LISTS", "PARSER", "RERANKER"} if "LISTS" in wanted else set()
    names = [name for name in MODELS if name in wanted | needed]
    texts = make_inputs(folder, "20kB", {"TREES", "ARCS", "TEXT", "LETTERS"}, {})
    known = {name: folder / name.lower() for name in names}
    for name in names:
        sapwood(MODELS[name], texts | known)
    known["SMALL"] = texts["TREES"]
    if needed:
        known["LISTS"] = folder / "small-lists.conllu"
        sapwood(LISTS, texts | known)
    return known


def sapwood(line: str, known: dict[str, Path]) -> None:
    """Run a command that has to succeed."""
    words = [str(known.get(word, word)) for word in line.split()]
    subprocess.run([sys.executable, "-m", "sapwood", *words], check=True, capture_output=True)


def make_inputs(
    folder: Path, size: str, wanted: set[str], known: dict[str, Path]
) -> dict[str, Path]:
    """Files of about so many bytes, each of the kind that a word of a command line names."""
    data = Path(os.environ["SAPWOOD_DATA"])
    sources = {
        "TREES": (data / "craft" / "train.mrg.xz", b"\n", ".mrg"),
        "ARCS": (data / "ud_english_ewt" / "train.conllu.xz", b"\n\n", ".conllu"),
        "TEXT": (data / "wikinews_en" / "train.txt.xz", b"\n", ".txt"),
        "LISTS": (known.get("LISTS"), b"\n\n", ".conllu"),
        "LETTERS": (LETTERS, b"\n", ".txt"),
        "BRACKETS": (b"( (NP the dog) saw ) (PP in (the garden)) .\n" * 9, b"\n", ".txt"),
        "TAGGED": (b"the/DT dog/ sleeps/VBZ in/ the/ garden/NN ./.\n" * 9, b"\n", ".txt"),
        "RNA": (b">name\nGGGAAACCC\n(((...)))\n" * 9, b")))\n", ".dbn"),
        "ARPA": (None, b"\n", ".arpa"),
    }
    made = {}
    for name, (source, unit, ending) in sources.items():
        if name in wanted:
            made[name] = path = folder / f"{name.lower()}-{size}{ending}"
            if not path.exists() and source is None:
                write_arpa(path, SIZES[size])
            elif not path.exists():
                write_input(path, read_source(source), SIZES[size], unit, new_words=name == "TEXT")
    return made


def read_source(source: Path | bytes) -> bytes:
    """The bytes of a file, or those that are given."""
    if isinstance(source, bytes):
        return source
    if source.suffix != ".xz":
        return source.read_bytes()
    with lzma.open(source) as packed:
        return packed.read()


def write_input(path: Path, whole: bytes, size: int, unit: bytes, *, new_words: bool) -> None:
    """Repeat a text up to a size, up to a whole unit, if asked with new words in each copy."""
    with path.open("wb") as file:
        copy = 0
        while (left := size - file.tell()) > 0:
            cut = whole if left >= len(whole) else whole[: whole.find(unit, left) + len(unit)]
            file.write(cut.replace(b"e ", b"e%d " % copy) if new_words and copy else cut or whole)
            copy += 1


def write_arpa(path: Path, size: int) -> None:
    """A language model of equally likely words, as text."""
    n_words = size // 22
    log_p = f"{-math.log10(n_words + 2):.6f}"
    with path.open("w") as file:
        file.write(f"\\data\\\nngram 1={n_words + 3}\n\n\\1-grams:\n-99\t<s>\t0\n")
        file.writelines(f"{log_p}\t{word}\t0\n" for word in ("<unk>", "</s>"))
        file.writelines(f"{log_p}\tw{k}\t0\n" for k in range(n_words))
        file.write("\n\\end\\\n")


def run(arguments: list[str], limit: float, gigabytes: float) -> tuple[float, float, str]:
    """Processor seconds, peak in MB, and how a command ended."""
    seconds, peak = 0.0, 0.0
    with tempfile.TemporaryFile("w+") as errors:
        within = ["/bin/sh", "-c", 'ulimit -v "$0"; exec "$@"', str(int(gigabytes * 1024 * 1024))]
        child = subprocess.Popen(
            [*within, sys.executable, "-m", "sapwood", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        while is_running(child.pid) and seconds < limit:
            now, memory = usage_of_group(child.pid)
            seconds, peak = max(seconds, now), max(peak, memory, peak_of(child.pid))
            sleep(PAUSE)
        if is_running(child.pid):
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return seconds, peak, "cut off"
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = used.ru_utime + used.ru_stime
        errors.seek(0)
        told = errors.read()
    if child.returncode == 0:
        return seconds, peak, "done"
    lines = [line for line in told.splitlines() if line.startswith("error:")]
    if child.returncode < 0 or "unexpected" in told or "Traceback" in told or not lines:
        last = (told.strip().splitlines() or [""])[-1]
        return seconds, peak, f"FAULT {child.returncode}: {last[:120]}"
    return seconds, peak, f"refused: {lines[-1].removeprefix('error: ')[:160]}"


def is_running(pid: int) -> bool:
    """Whether a child has not ended yet; its status stays where it is."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def usage_of_group(pid: int) -> tuple[float, float]:
    """Processor seconds and memory in MB of all processes of a process group, of ended ones too."""
    ticks, pages = 0, 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = stat.read_text().rsplit(")", 1)[1].split()
            if int(fields[3]) == pid:
                ticks += sum(map(int, fields[11:15]))  # its own, and of children that ended
                pages += int(fields[21])
    return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def peak_of(pid: int) -> float:
    """Peak of a process in MB."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    main()
