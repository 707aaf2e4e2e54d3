"""Scores of predicted trees."""

from __future__ import annotations

from sapwood.evaluate.bracketing import BracketingReport, SentenceScore, Totals, bracketing

__all__ = ["BracketingReport", "SentenceScore", "Totals", "bracketing"]
