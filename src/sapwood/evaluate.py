"""Scores of predicted trees and arcs."""

from __future__ import annotations

from sapwood.constituency.evaluate.bracketing import (
    BracketingReport,
    SentenceScore,
    Totals,
    bracketing,
)
from sapwood.constituency.evaluate.errors import BracketError, ErrorReport, diagnose
from sapwood.constituency.evaluate.reliability import Reliability, calibration, graded
from sapwood.dependency.evaluate import AttachmentScores, attachment, compare_attachment

__all__ = [
    "AttachmentScores",
    "BracketError",
    "BracketingReport",
    "ErrorReport",
    "Reliability",
    "SentenceScore",
    "Totals",
    "attachment",
    "bracketing",
    "calibration",
    "compare_attachment",
    "diagnose",
    "graded",
]
