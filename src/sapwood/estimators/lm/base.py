"""What all estimators of language models share."""

from __future__ import annotations

from sapwood.estimators.base import Estimator


class LanguageEstimator(Estimator):
    """Learns from counts of n-grams: `NgramCounts`, files of counts or text, or sentences.

    Words are taken as they are counted: `NgramCounts.cut_words` makes rare ones the unknown word.
    """
