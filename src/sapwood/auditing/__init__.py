"""What audits of all kinds of trees need: folds, findings, evidence that is combined, nuclei."""
