"""Reports: a model, a run or a treebank in, plain dictionaries of JSON types out.

What the command line prints under `--json` and what a page would show. Nothing here prints.
"""

from sapwood.report.bounds import identify_bounds as identify_bounds
from sapwood.report.card import model_card as model_card
from sapwood.report.doctor import checkup as checkup
from sapwood.report.identify import identify_family as identify_family
from sapwood.report.identify import identify_table as identify_table
from sapwood.report.identify import unmix_report as unmix_report
from sapwood.report.inspect import inspect_model as inspect_model
from sapwood.report.inspect import inspect_spectrum as inspect_spectrum
from sapwood.report.inspect import telling_member as telling_member
from sapwood.report.plain import to_json as to_json
from sapwood.report.training import budget_report as budget_report
from sapwood.report.training import comparison_row as comparison_row
from sapwood.report.training import score_on as score_on
from sapwood.report.training import training_report as training_report
from sapwood.report.trees import Evaluation as Evaluation
from sapwood.report.trees import ScoreReport as ScoreReport
from sapwood.report.trees import evaluate_trees as evaluate_trees
from sapwood.report.trees import parse_report as parse_report
from sapwood.report.trees import score_sentences as score_sentences
from sapwood.report.trees import score_trees as score_trees
from sapwood.report.trees import split_report as split_report
from sapwood.report.trees import treebank_report as treebank_report
