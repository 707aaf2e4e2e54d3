"""Audits of all kinds of trees: folds, findings, combined evidence, variation nuclei."""
