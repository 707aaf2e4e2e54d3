"""Scores of predicted trees."""

from __future__ import annotations

from sapwood.evaluate.bracketing import bracketing
from sapwood.evaluate.diagnosis import BracketError
from sapwood.evaluate.errors import ErrorReport, diagnose
from sapwood.evaluate.reliability import Reliability, calibration, graded
from sapwood.evaluate.scores import BracketingReport, SentenceScore, Totals

__all__ = [
    "BracketError",
    "BracketingReport",
    "ErrorReport",
    "Reliability",
    "SentenceScore",
    "Totals",
    "bracketing",
    "calibration",
    "diagnose",
    "graded",
]
