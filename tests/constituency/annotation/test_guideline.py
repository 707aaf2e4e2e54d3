"""What a label looked like before: its hidden states in the model."""

from __future__ import annotations

import sapwood as sw
from sapwood.constituency.annotation.guideline import label_states


def test_states_of_labels_that_the_model_has_and_has_not() -> None:
    model = sw.bundled_grammar()
    assert label_states(model, "NP")
    assert label_states(model, "NX") == []
