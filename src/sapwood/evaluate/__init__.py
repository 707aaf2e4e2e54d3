"""Scores of predicted trees."""

from __future__ import annotations

from sapwood.evaluate.bracketing import bracketing
from sapwood.evaluate.scores import BracketingReport, SentenceScore, Totals

__all__ = ["BracketingReport", "SentenceScore", "Totals", "bracketing"]
