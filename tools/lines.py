"""Count the lines of the sources by room, and what the features that both versions have take.

    python tools/lines.py                     rooms, and lines of each feature that came later
    python tools/lines.py --before REVISION   the same of an older version beside it (needs git)

A file belongs to a later feature when a pattern of `LATER` names it; of what is left, the lines
that both versions spend on the same features are compared. Files that serve old and new features
count as old, so that the comparison is rather too strict than too kind.
"""

from __future__ import annotations

import argparse
import subprocess
from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Features that came after the first version, and the files that only they have.
LATER = {
    "dependency trees": (
        "*/arcs/*", "kernels/arc_*", "kernels/latent_arcs.py", "kernels/latent_eisner.py",
        "features/arc*", "decompose/arcs.py", "moments/arcs.py", "evaluate/attachment.py",
        "identify/arc_bounds.py", "reference/arcs.py", "reference/latent_arcs.py",
        "estimators/warming_tasks.py", "kernels/list_perceptron.py",
    ),
    "weighted grammars of strings": (
        "*/strings/hankel*", "cli/strings/models.py", "estimators/strings/*", "models/strings/*",
        "decompose/hankel.py", "decompose/lowrank.py", "moments/hankel.py", "report/hankel*",
        "moments/string_counts.py", "moments/consistency.py", "kernels/weighted_grammar.py",
        "reference/weighted_grammars.py", "evaluate/strings.py", "corpus/bracketed.py",
        "corpus/rna.py", "cli/strings/rna.py",
    ),
    "language models": (
        "*/lm/*", "report/lm.py", "evaluate/perplexity.py", "moments/ngram*", "kernels/bigrams.py",
        "decompose/latent_bigrams.py", "reference/ngrams.py", "corpus/plain_text.py",
        "kernels/text.py", "moments/numbered_words.py",
    ),
    "vectors of words": (
        "*/eigenwords.py", "cli/strings/embed.py", "moments/contexts.py", "report/words.py",
    ),
    "networks": (
        "networks/*", "*/networks.py", "estimators/network_training.py",
        "inference/word_places.py", "estimators/encoder.py", "inference/spans.py",
        "kernels/span_trees.py", "models/span_network.py", "inference/free_trees.py",
        "reference/span_trees.py",
    ),
    "web page, notebooks": (
        "web/*", "cli/serve.py", "report/arcs.py", "report/parses.py", "report/states.py",
        "report/identify_size.py", "inference/node_states.py", "corpus/markup.py",
    ),
    "clusters, disks": (
        "execute/*", "cli/engines.py", "corpus/stored.py", "inference/far_parses.py",
    ),
    "small model files": ("models/packing.py",),
    "settings chosen on the treebank": ("estimators/choice.py",),
    "model cards": ("report/card.py", "cli/trees/card.py"),
    "identify bounds": ("report/bounds.py", "cli/strings/bounds.py"),
}  # fmt: skip


def feature_of(file: str) -> str | None:
    """The later feature that a file below `src/sapwood` belongs to."""
    for feature, patterns in LATER.items():
        if any(fnmatch(file, pattern) for pattern in patterns):
            return feature
    return None


def sizes_now() -> dict[str, int]:
    """Lines of every source file."""
    source = ROOT / "src" / "sapwood"
    files = sorted(source.rglob("*.py"))
    return {
        path.relative_to(source).as_posix(): len(path.read_text("utf-8").splitlines())
        for path in files
    }


def sizes_of(revision: str) -> dict[str, int]:
    """The same in an older version."""
    command = ["git", "grep", "-c", "", revision, "--", "src/sapwood/*.py"]
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    rows = (line.removeprefix(f"{revision}:src/sapwood/").rsplit(":", 1) for line in found.split())
    return {file: int(n) for file, n in rows}


def by_room(sizes: Mapping[str, int]) -> Counter[str]:
    """Lines by room, and those of later features under their names."""
    found: Counter[str] = Counter()
    for file, n in sizes.items():
        room = file.partition("/")[0] if "/" in file else "(files)"
        found[feature_of(file) or room] += n
    return found


def main() -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser(description="lines of the sources by room")
    parser.add_argument("--before", metavar="REVISION", help="an older version to compare with")
    revision = parser.parse_args().before
    columns = [by_room(sizes_of(revision))] if revision else []
    columns.append(by_room(sizes_now()))
    rooms = sorted(set().union(*columns).difference(LATER))

    def show(title: str, names: list[str]) -> None:
        totals = [sum(column[name] for name in names) for column in columns]
        change = f"{totals[-1] - totals[0]:>+10,}" if revision else ""
        print(f"{title:<32}" + "".join(f"{n:>10,}" for n in totals) + change)

    for room in rooms:
        show(room, [room])
    show("the same features", rooms)
    for feature in LATER:
        show(feature, [feature])
    show("all", [*rooms, *LATER])


if __name__ == "__main__":
    main()
