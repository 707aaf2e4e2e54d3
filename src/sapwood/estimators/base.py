"""What all estimators share: parameters that are stored, shown, copied and checked in one place."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Self

from sapwood.corpus.treebank import Treebank
from sapwood.errors import SapwoodError


class Estimator:
    """Stores its constructor's arguments and checks them against a table when fitting.

    Follows scikit-learn's contract (`get_params`, `set_params`, fitted values end in `_`) without
    importing it.
    """

    # name: (test, what is expected in words)
    CONSTRAINTS: ClassVar[dict[str, tuple[Any, str]]] = {}

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name (`deep` is there for scikit-learn)."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Change constructor arguments by name."""
        known = self._parameter_names()
        for name, value in params.items():
            if name not in known:
                msg = f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}"
                raise SapwoodError(msg)
            setattr(self, name, value)
        return self

    def _check_parameters(self) -> None:
        for name, (is_valid, expected) in self.CONSTRAINTS.items():
            value = getattr(self, name)
            if not is_valid(value):
                msg = f"{type(self).__name__}: {name} must be {expected}, not {value!r}"
                raise SapwoodError(msg)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({given})"


def check_treebank(bank: object) -> None:
    """Say what to pass when `fit` is given anything but a treebank."""
    if not isinstance(bank, Treebank):
        msg = f"fit needs a Treebank, not {type(bank).__name__}"
        hint = "use sapwood.read_treebank(path) or Treebank.from_trees(trees)"
        raise SapwoodError(msg, hint=hint)
