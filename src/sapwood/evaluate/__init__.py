"""Scores of predicted trees and arcs."""

from __future__ import annotations

from sapwood.evaluate.attachment import AttachmentScores, attachment, compare_attachment
from sapwood.evaluate.bracketing import bracketing
from sapwood.evaluate.errors import BracketError, ErrorReport, diagnose
from sapwood.evaluate.reliability import Reliability, calibration, graded
from sapwood.evaluate.scores import BracketingReport, SentenceScore, Totals

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
