// Technical terms with their definitions, shown under the pointer and under the keyboard's focus.

import { h } from "/static/dom.js";

const LOG =
  "A natural logarithm: 0 is certain, −2.3 is 1 in 10, −9.2 is 1 in 10,000. Longer sentences have lower values. " +
  "Models whose weights are not probabilities show the logarithm of the weight.";
const MEANINGS = {
  "log P(tree)": `How probable the model holds this tree with its words, among all trees there could be. ${LOG}`,
  "log P(sentence)": `How probable the model holds these words, whatever their tree. ${LOG}`,
  "log P": `How probable the model holds this tree with its words. ${LOG}`,
  "P(tree | sentence)": "How probable this tree is among all trees of this sentence.",
  "P(constraints)":
    "How probable it was, before you asked, that the tree of this sentence is as you ask; all else on this page is " +
    "given that it is.",
  surprisal:
    "The negative logarithm of the probability of the word given the words before it. Its syntactic part is that of " +
    "the structure up to the tag of the word, its lexical part that of the word given the structure.",
  bits: "How surprising the text is: a word of probability 1/2 has 1 bit, one of 1/1024 has 10 bits.",
  perplexity: "Among how many equally likely words the model chooses on average. Lower is better.",
  F1: "Agreement with the gold tree: the harmonic mean of precision and recall of labelled brackets, in per cent.",
};
const SCORES = {
  f1: "the brackets that are expected to be right, less what brackets cost in F1",
  "max-rule": "the logarithm of the product of the posteriors of its rules",
  goodman: "the number of constituents that are expected to be right",
  viterbi: "the logarithm of the probability of its likeliest derivation",
  arcs: "the logarithm of its probability given the sentence, or, of several members, the arcs expected to be right",
};

let n_tips = 0;

function explained(name, meaning) {
  const id = `tip-${++n_tips}`;
  return h(
    "span",
    { class: "term" },
    h("button", { type: "button", "aria-describedby": id }, name),
    h("span", { role: "tooltip", class: "tip", id }, meaning),
  );
}

export const term = (name) => explained(name, MEANINGS[name]);
export const scoreTerm = (decoder) =>
  explained("score", `What the list of best trees is sorted by, higher first: ${SCORES[decoder]}.`);
