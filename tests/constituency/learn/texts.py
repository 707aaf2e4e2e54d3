"""A small text, and a file of it, for tests of n-gram counts."""

from __future__ import annotations

from pathlib import Path

TEXT = [["the", "dog", "sees", "the", "cat"], ["a", "dog"], ["the", "dog", "sees"], ["cat"]] * 3


def write(folder: Path, sentences: list[list[str]], name: str = "text.txt") -> Path:
    path = folder / name
    path.write_text("".join(" ".join(line) + "\n" for line in sentences), "utf-8")
    return path
