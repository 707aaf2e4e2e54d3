"""`sapwood lm`: count text, learn language models, and use them."""

from __future__ import annotations

from sapwood.cli import options as opt
from sapwood.cli.lm import train, use

app = opt.command_group(
    "Language models with hidden states, and Kneser-Ney models, from text of any size.",
    ("count", train.count_ngrams, train.COUNT_EPILOG, "Count the n-grams of text of any size."),
    ("train", train.train_language_model, train.TRAIN_LM_EPILOG,
     "Learn a language model from counts or text."),
    ("evaluate", use.evaluate_text, use.EVALUATE_LM_EPILOG, "Print the perplexity of a text."),
    ("score", use.score_lines, use.SCORE_LM_EPILOG,
     "Print the log-probability of each sentence, or word by word."),
    ("next", use.next_words, use.NEXT_EPILOG, "Print the likeliest next words."),
    ("sample", use.sample_text, use.SAMPLE_LM_EPILOG, "Draw sentences from a model."),
    ("classes", use.show_classes, use.CLASSES_EPILOG, "Show what the hidden states mean."),
    ("convert", use.convert_arpa, use.CONVERT_LM_EPILOG, "Write a model as ARPA, or read one."),
)  # fmt: skip
