"""Names of models: the file that a user means by one, and the models that come with Sapwood.

A model that comes with Sapwood is a file `NAME.sapwood` in the folder `models_data` of the package,
with a card `NAME.json` beside it; `NOTICE.md` there names what all of them were learnt from.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sapwood.core.errors import ModelFormatError, SapwoodTypeError, SapwoodWarning, describe

BUNDLED = "bundled"  # the grammar that the bundled trees were drawn from; it has no file
ENGLISH, ENGLISH_UD = "english", "english-ud"
FOLDER = Path(__file__).parents[1] / "models_data"
WRITERS = (  # the commands that write models
    "`sapwood train`",
    "`sapwood depend train`",
    "`sapwood hankel learn`",
    "`sapwood lm train`",
)
_NAME = re.compile(r"[a-z][a-z0-9-]*")


def list_models() -> list[dict[str, Any]]:
    """The cards of the models that come with Sapwood, by name.

    A card has `name`, `title`, `language`, `task`, `version`, `bytes` and `sha256` of the file,
    `licence` of the weights, `training_data` (name, source, commit, licence, attribution, trees and
    words of each corpus), `scores` (corpus, part, sentences, metric, value), and the `command` that
    makes the file again.

    Examples
    --------
    >>> import sapwood as sw
    >>> all(card["licence"] for card in sw.list_models())
    True
    """
    files = sorted(FOLDER.glob("*.sapwood"), key=lambda path: path.stem)
    cards = (path.with_suffix(".json") for path in files)
    return [json.loads(path.read_text(encoding="utf-8")) for path in cards if path.exists()]


def model_notice() -> str:
    """The attributions of all that the models which come with Sapwood were learnt from."""
    return (FOLDER / "NOTICE.md").read_text(encoding="utf-8")


def model_file(name: str) -> Path | None:
    """The file of a model that comes with Sapwood; None for any other name."""
    path = FOLDER / f"{name}.sapwood"
    return path if _NAME.fullmatch(name) and path.is_file() else None


def find_model(name: object, writers: Sequence[str] = WRITERS) -> Path | None:
    """The file of the model that a user names; None for the hand-written grammar, `bundled`.

    A file of that name in the working folder is taken before a model that comes with Sapwood, with
    a warning. `./english` and a `Path` are never names.

    Parameters
    ----------
    writers
        The commands that write such models, for the hint where there is none.

    Raises
    ------
    ModelFormatError
        Where there is neither a file nor a model of that name; the hint lists the models.

    Examples
    --------
    >>> find_model("bundled") is None
    True
    """
    if not isinstance(name, (str, os.PathLike)):
        msg = f"expected the path or the name of a model, not {describe(name)}"
        raise SapwoodTypeError(msg, hint="give a string or a pathlib.Path")
    if name == BUNDLED:
        return None
    path = Path(name).expanduser()
    own = model_file(name) if isinstance(name, str) else None
    if path.is_dir() and own is None:
        msg = f"{name}: a folder, expected a model file"
        raise ModelFormatError(msg, hint="name the file in it that a command of Sapwood wrote")
    if path.exists() and not path.is_dir():
        if own is not None:
            msg = f"{name}: the file of that name in this folder is read, "
            msg += "not the model that comes with Sapwood"
            warnings.warn(SapwoodWarning(msg), stacklevel=1)  # one place, so that it is said once
        return path
    if own is None:
        hint = (
            f"name a file that {' or '.join(writers)} wrote, or a model that comes with Sapwood: "
        )
        hint += ", ".join([*(card["name"] for card in list_models()), BUNDLED])
        raise ModelFormatError(f"{name}: no such model file", hint=hint)
    return own
