"""Every report makes its way through the JSON API."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from tests.conftest import Learn
from tests.web.servers import Client, ask

import sapwood as sw
from sapwood.constituency.report.parses import parse_answer
from sapwood.report import to_json
from sapwood.web.models import TREES, LoadedModel, ModelStore, bundled_models, models_from_files

SENTENCE = "the woman saw a dog in the garden ."
TREE = "(TOP (S (NP (PRP they)) (VP (VBP sleep)) (. .)))"


def test_parse_has_the_fixed_form(client: Client) -> None:
    found = ask(client, "parse", sentence="The woman saw a dog in the garden.", k=3)
    assert list(found) == [
        "tree", "log_prob", "is_fallback", "constituents", "k_best", "constraint_probability",
    ]  # fmt: skip
    parse = sw.Parser(sw.bundled_grammar()).parse_text("The woman saw a dog in the garden.")
    assert found == json.loads(to_json(parse_answer(parse, 3)))
    assert found["tree"] == found["k_best"][0]["tree"]
    assert sw.Tree.parse(found["tree"]).words()[0] == "The"
    assert set(found["constituents"][0]) == {"label", "start", "end", "probability"}


def test_the_sentences_of_a_text(client: Client) -> None:
    text = 'Mr. Lee sleeps. "Why?" he asked.\n\nThey sleep .'
    found = ask(client, "sentences", text=text)["sentences"]
    assert [one["text"] for one in found] == ["Mr. Lee sleeps.", '"Why?" he asked.', "They sleep ."]
    assert all(text[one["char_start"] : one["char_end"]] == one["text"] for one in found)
    assert ask(client, "sentences", text="\n")["sentences"] == []


def test_a_text_is_parsed_sentence_by_sentence(client: Client) -> None:
    text = 'The woman saw "a dog". They sleep.\r\n\r\nThey sleep!'
    found = ask(client, "parse-text", text=text)["sentences"]
    assert [text[one["char_start"] : one["char_end"]] for one in found] == [
        'The woman saw "a dog".', "They sleep.", "They sleep!",
    ]  # fmt: skip
    for one in found:
        words = [word["word"] for word in one["words"]]
        assert one["tree"] == ask(client, "parse", words=words)["tree"]
        for word in one["words"]:
            written = text[word["char_start"] : word["char_end"]]
            assert written == word["word"] or written == '"'
    subject = next(c for c in found[1]["constituents"] if c["label"] == "NP")
    assert text[subject["char_start"] : subject["char_end"]] == "They"
    assert ask(client, "parse-text", text=" \n")["sentences"] == []
    many = client.post("/api/parse-text", json={"text": "They sleep. " * 20_000})
    assert many.status_code in {413, 422}


def test_a_parse_asks_for_no_chart_that_its_answer_drops(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> float:
        msg = "the answer does not have it"
        raise AssertionError(msg)

    monkeypatch.setattr("sapwood.constituency.parse.parser.Parse.sentence_log_prob", property(fail))
    for path in ("parse", "k-best"):
        ask(client, path, sentence=SENTENCE, model="mix", k=2)


def test_words_are_taken_as_they_are(client: Client) -> None:
    words = SENTENCE.split()
    by_words = ask(client, "parse", words=words, model="bundled", decoder="viterbi")
    assert by_words["k_best"][0]["rank"] == 1
    assert sw.Tree.parse(by_words["tree"]).words() == words


def test_a_fallback_is_said_and_has_no_probability(client: Client) -> None:
    found = ask(client, "parse", words=["the", "the", "the"])
    assert found["is_fallback"]
    assert found["log_prob"] is None


def test_k_best_and_posteriors(client: Client) -> None:
    best = ask(client, "k-best", sentence=SENTENCE, k=3)["k_best"]
    assert [row["rank"] for row in best] == [1, 2, 3]
    found = ask(client, "posteriors", sentence=SENTENCE)
    tags = [c for c in found["posteriors"] if (c["start"], c["end"]) == (0, 1)]
    assert sum(c["probability"] for c in tags) == pytest.approx(1.0, abs=1e-6)


def test_a_drawing_has_the_nodes_of_its_tree(client: Client) -> None:
    found = ask(client, "draw", sentence=SENTENCE, k=2)
    tree = sw.Tree.parse(found["tree"])
    assert [(n["label"], n["start"], n["end"]) for n in found["nodes"]] == tree.spans()
    assert found["svg"] == tree.svg(width=None)
    assert found["latex"] == tree.to_latex()
    for node in found["nodes"]:
        if node["states"]:
            assert sum(node["states"]["shares"]) == pytest.approx(1.0, abs=1e-4)
    assert any(node["states"] for node in found["nodes"])
    cells = {(c["start"], c["end"]): dict(c["labels"]) for c in found["chart"]}
    for node in found["nodes"][1:]:
        assert node["posterior"] == pytest.approx(
            cells[node["start"], node["end"]][node["label"]], abs=1e-5
        )


def test_a_tree_is_scored_and_drawn_as_it_is(client: Client) -> None:
    found = ask(client, "tree", tree=TREE)
    assert ask(client, "draw", sentence=TREE) == found
    assert found["kind"] == "given"
    assert found["log_prob"] == pytest.approx(sw.bundled_grammar().log_prob(sw.Tree.parse(TREE)))
    assert found["posterior"] == pytest.approx(
        math.exp(found["log_prob"] - found["sentence_log_prob"]), abs=1e-6
    )
    other = ask(client, "tree", tree="(S (X they) (Y sleep) (Z .))")
    assert other["log_prob"] is None
    assert other["nodes"][1]["posterior"] == 0.0


def test_members_of_an_ensemble(client: Client) -> None:
    tree = ask(client, "parse", model="mix", sentence=SENTENCE)["tree"]
    found = ask(client, "members", model="mix", tree=tree)
    assert [row["method"] for row in found["members"]] == ["pcfg", "spectral"]
    assert len(found["nodes"]) == len(sw.Tree.parse(tree).spans())
    for node in found["nodes"][1:]:
        low, high = min(node["posteriors"]), max(node["posteriors"])
        assert node["disagree"] == (low < 0.5 <= high)
        assert node["spread"] == pytest.approx(high - low)
    assert ask(client, "members", model="bundled", tree=tree) == {"members": [], "nodes": []}


def test_score(client: Client) -> None:
    model = sw.bundled_grammar()
    trees = ask(client, "score", trees=f"{TREE}\n{TREE}")
    assert trees["log_probs"] == pytest.approx([model.log_prob(sw.Tree.parse(TREE))] * 2)
    sentences = ask(client, "score", sentences=["they sleep .", ""])
    assert sentences["log_probs"][0] == pytest.approx(model.log_prob(["they", "sleep", "."]))
    assert (sentences["scored"], sentences["empty"]) == (1, 1)


def test_sample(client: Client) -> None:
    drawn = ask(client, "sample", n=3, seed=7)["trees"]
    assert drawn == [str(tree) for tree in sw.bundled_grammar().sample(3, seed=7)]
    assert "error" in ask(client, "sample", 422, model="spectral", n=1)


def test_sample_of_a_mix_names_the_members_that_it_draws_from(client: Client) -> None:
    drawn = ask(client, "sample", model="mix", n=2, seed=7)
    assert drawn["model"] == "mix"
    assert "drawn from pcfg (100%)" in drawn["note"]
    assert "left out: spectral" in drawn["note"]
    refused = ask(client, "sample", 422, model="arcs", n=1)
    assert "arcs is a model of dependencies" in refused["error"]


def test_a_network_alone_is_refused_and_is_no_fault_of_the_server(
    client: Client, store: ModelStore, bank: sw.Treebank
) -> None:
    network = sw.SpanEncoder(width=6, hidden=5, passes=1).fit(bank[:40]).model_
    store.add(LoadedModel("network", lambda: network, kind=TREES))
    refused = ask(client, "sample", 422, model="network", n=1)
    assert "encoder has none" in refused["error"]
    assert "--method pcfg, em" in refused["hint"]
    del store.models["network"]


def test_inspect_and_labels(client: Client) -> None:
    assert ask(client, "inspect", label="NP", top=2)["label"] == "NP"
    assert len(ask(client, "inspect", model="mix")["members"]) == 2
    labels = ask(client, "labels", model="mix")
    assert labels["member"] == 2  # the one that has states
    assert ask(client, "labels")["labels"][0]["symbol"] == "NP"


def test_states(client: Client) -> None:
    (card,) = ask(client, "states", label="NN")["symbols"]
    assert len(card["rows"]) == 1 + card["states"]
    assert sum(row["share"] for row in card["rows"][1:]) == pytest.approx(1.0)
    assert "nearest" not in ask(client, "state", symbol="NN", state=3)
    one = ask(client, "state", symbol="NN", state=3, nearest=True)
    assert one["words"] == card["rows"][4]["words"]
    assert all(
        near["symbol"] != "NN" and 0 < near["overlap"] <= 1 + 1e-9 for near in one["nearest"]
    )
    spectral = ask(client, "states", model="spectral", label="NP")["symbols"][0]
    assert len(spectral["dimensions"]) == spectral["states"]
    assert ask(client, "state", model="spectral", symbol="NP", state=1)["state"] is None
    assert "no state 99" in ask(client, "state", 422, symbol="NN", state=99)["error"]
    assert "no label" in ask(client, "states", 422, label="QQ")["error"]


def test_words_and_examples(client: Client) -> None:
    word = ask(client, "word", word="saw")
    assert word["known"]
    assert sum(row["probability"] for row in word["states"]) == pytest.approx(1.0)
    assert {row["symbol"] for row in word["states"]} >= {"VBD", "NN"}
    unknown = ask(client, "word", word="Zzyzx")
    assert not unknown["known"]
    assert unknown["class"]
    found = ask(client, "examples", label="NN")
    row = max(found["symbols"][0]["rows"], key=lambda row: row["count"])
    for example in row["examples"]:
        assert example["end"] == example["start"] + 1
        assert (
            example["words"][example["start"]] in row["head_words"] or len(row["head_words"]) == 8
        )


def test_compare_on_a_sentence(client: Client) -> None:
    found = ask(client, "compare", models=["bundled", "spectral"], sentence=SENTENCE)
    one, other = (
        {(n["label"], n["start"], n["end"]) for n in side["nodes"]} for side in found["sides"]
    )
    for side, theirs in zip(found["sides"], (other, one), strict=True):
        for node in side["nodes"]:
            assert node["differs"] == ((node["label"], node["start"], node["end"]) not in theirs)
    same = ask(client, "compare", models=["bundled", "bundled"], sentence=SENTENCE)
    assert not any(node["differs"] for side in same["sides"] for node in side["nodes"])


def test_compare_on_gold_trees(client: Client, bank: sw.Treebank) -> None:
    gold = "\n".join(str(tree) for tree in bank[:5])
    found = ask(client, "compare", models=["bundled", "spectral"], gold=gold)
    assert [row["model"] for row in found["models"]] == ["bundled", "spectral"]
    assert len(found["sentences"]) == 5
    trees = [sw.Tree.parse(row["trees"][0]) for row in found["sentences"]]
    expected = sw.evaluate.bracketing(list(bank[:5]), trees).f1
    assert found["models"][0]["scores"]["f1"] == pytest.approx(expected)
    pair = ask(
        client, "difference", trees=[TREE, "(TOP (S (NP (PRP they)) (VP (VB sleep)) (. .)))"]
    )
    assert [n["label"] for n in pair["sides"][0]["nodes"] if n["differs"]] == ["VBP"]
    assert "different words" in ask(client, "difference", 422, trees=[TREE, "(S (X a))"])["error"]
    broken = ask(client, "compare", 422, models=["bundled", "spectral"], gold=f"{TREE}\n(S (NP")
    assert (broken["line"], broken["column"]) == (2, 1)


def test_identify(client: Client) -> None:
    rows = ask(client, "identify/table", words=2, states=2, length=3)["rows"]
    by_cell = {(row["family"], row["moments"]): row for row in rows}
    assert by_cell["pcfg-ie", "12"]["deficit"] > 0
    assert by_cell["dep-ies", "pairs"]["identifiable"]
    short = ask(client, "identify/table", words=2, states=2, length=2)["rows"]
    assert next(row for row in short if row["moments"] == "123")["reason"]
    one = ask(client, "identify", family="pcfg-ie", words=2, states=2, length=3, moments="12")
    assert one["deficit"] == by_cell["pcfg-ie", "12"]["deficit"]
    assert one["explanation"] or one["movable"]
    assert "error" in ask(client, "identify", 422, family="nonsense", words=2, length=3)


def test_depend(client: Client) -> None:
    found = ask(client, "depend", sentence="they see the dog .", k=2)
    arcs = sw.Arcs.parse(found["conllu"])
    assert [node["head"] for node in found["nodes"]] == list(arcs.heads)
    assert found["svg"] == arcs.to_svg()
    assert found["latex"] == arcs.to_latex()
    assert all(0 <= node["posterior"] <= 1 + 1e-9 for node in found["nodes"])
    assert len(found["k_best"]) == 2
    drawn = ask(client, "arcs", conllu=found["k_best"][1]["conllu"])
    assert [node["head"] for node in drawn["nodes"]] == found["k_best"][1]["heads"]


def test_depend_keeps_what_is_given(client: Client) -> None:
    words = ["they", "see", "the", "dog", "."]
    free = ask(client, "depend", words=words)
    assert free["constraint_probability"] == 1.0
    heads = [0, None, None, None, None]
    found = ask(client, "depend", words=words, heads=heads, k=2)
    assert [tree["heads"][0] for tree in found["k_best"]] == [0, 0]
    assert found["constraint_probability"] < 1.0
    clash = ask(client, "depend", 422, words=words, heads=[2, 1, None, None, None])
    assert "words 1 and 2 depend on each other in a cycle" in clash["error"]
    unknown = ask(client, "depend", 422, words=words, tags=["NOUNS", None, None, None, None])
    assert "which the model has never seen" in unknown["error"]
    tag = free["nodes"][0]["upos"]
    soft = ask(client, "depend", words=words, tags=[{tag: 0.9}, None, None, None, None])
    assert soft["nodes"][0]["upos"] == tag


def test_language_models(client: Client, store: ModelStore) -> None:
    model = store.models["text"].model
    next_ = ask(client, "lm/next", context="the", top=4)["next"]
    assert len(next_) == 4
    assert next_[0]["p"] == pytest.approx(math.exp(model.next_log_probs(["the"]).max()), rel=1e-5)
    report = ask(client, "lm/surprise", sentence="the dog sleeps .")
    assert report["bits"] == pytest.approx(
        -model.log_prob(["the", "dog", "sleeps", "."]) / math.log(2)
    )
    assert [row["word"] for row in report["words"]] == ["the", "dog", "sleeps", ".", "</s>"]
    classes = ask(client, "lm/classes", top=3)
    assert len(classes["states"]) == classes["about"]["states"] == 4


def test_a_hand_written_grammar_is_listed_as_hand_written(learn: Learn) -> None:
    rows = {loaded.name: loaded.as_dict() for loaded in bundled_models()}
    assert [name for name, row in rows.items() if row["is_hand_written"]] == ["bundled"]
    assert rows["bundled"]["about"].startswith("The hand-written grammar")
    # the first learnt one is what States opens: its states are kinds, not directions
    assert (
        next(name for name, row in rows.items() if not row["is_hand_written"]) == "bundled-cluster"
    )
    files = {"bundled": sw.bundled_grammar(), "mine": learn("spectral")}
    assert [
        one.as_dict()["is_hand_written"] for one in models_from_files([*files], files.get, None)
    ] == [
        True,
        False,
    ]


@pytest.mark.parametrize("symbol", ["<s>", "</s>", "<nothing>"])
def test_reserved_symbols_of_language_models(client: Client, symbol: str) -> None:
    told = f"word 2 of the sentence is {symbol!r}"
    for path, question in (
        ("lm/next", {"context": f"the {symbol}"}),
        ("lm/surprise", {"sentence": f"the {symbol} dog"}),
        ("lm/surprise", {"words": ["the", symbol]}),
    ):
        found = ask(client, path, 422, **question)
        assert told in found["error"]
        assert "leave it out" in found["hint"]


def test_models_pages_and_schema(client: Client) -> None:
    models = client.get("/api/models").json()
    expected = ["bundled", "spectral", "mix", "arcs", "text"]
    assert [row["name"] for row in models["models"]] == expected
    schema = client.get("/api/openapi.json").json()
    named = ["parse", "k-best", "posteriors", "score", "sample", "inspect", "depend"]
    assert {f"/api/{name}" for name in named} <= set(schema["paths"])
    assert all(path.startswith("/api/") for path in schema["paths"])  # no pages, no files
    for path in ("/", "/parse", "/states", "/compare", "/train", "/identify", "/text", "/docs"):
        page = client.get(path)
        assert page.status_code == 200
        assert '<script type="module"' in page.text
    for name in ("style.css", "main.js", "tree.js", "icon.svg"):
        assert client.get(f"/static/{name}").status_code == 200
    for path in ("/nothing", "/static/..%2fapp.py", "/static/app.py", "/static/.hidden", "/api/no",
                 f"/static/{'x' * 300}.js"):  # fmt: skip
        assert client.get(path).status_code == 404


def test_numbers_in_quotes_are_refused(client: Client) -> None:
    sentence = "the girl saw a dog ."
    assert ask(client, "k-best", sentence=sentence, k=2)
    assert "k" in ask(client, "k-best", 422, sentence=sentence, k="2")["error"]


def test_wrong_models_are_named(client: Client) -> None:
    assert "there are bundled" in ask(client, "parse", 404, sentence="x", model="?")["hint"]
    assert "dependencies" in ask(client, "parse", 422, sentence="x", model="arcs")["error"]
    assert ask(client, "lm/next", 422, model="bundled")["hint"] == "there are text"


def test_no_page_asks_for_anything_elsewhere() -> None:
    from importlib import resources

    for file in resources.files("sapwood.web").joinpath("static").iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text, file.name
        assert "https:" not in text, file.name


@pytest.mark.parametrize(
    ("path", "question", "error"),
    [
        ("identify/table", {"words": 9, "states": 2, "length": 3},
         '"words" is 9, expected a number of at most 6'),
        ("identify/table", {"words": "x", "states": 2, "length": 3},
         "\"words\" is 'x', expected a whole number"),
        ("identify/table", {"words": 1.5, "states": 2, "length": 3},
         '"words" is 1.5, expected a whole number'),
        ("parse", {"sentence": None, "words": None}, 'give either "sentence" or "words"'),
        ("parse", {"sentence": "x", "k": 0}, '"k" is 0, expected a number of at least 1'),
        ("parse", {"sentence": "x", "kk": 1}, '"kk" is not a field of this request'),
        ("parse", {"sentence": "x", "decoder": "?"},
         "\"decoder\" is '?', expected one of 'f1', 'goodman', 'max-rule', 'viterbi'"),
        ("tree", {}, '"tree" is missing'),
        ("compare", {"models": ["a"], "sentence": "x"},
         '"models" is a list of 1, expected a list of at least 2'),
    ],
)  # fmt: skip
def test_what_the_validator_finds_is_said_in_words(
    client: Client, path: str, question: dict[str, Any], error: str
) -> None:
    assert ask(client, path, 422, **question)["error"] == error


def test_no_answer_repeats_the_text_of_a_library(client: Client) -> None:
    spoilt: tuple[Any, ...] = (None, True, -1, 1.5, 10**30, "", "x" * 300, [], {}, [None])
    for path, fields in (("parse", ("sentence", "words", "k", "decoder", "model")),
                         ("identify/table", ("words", "states", "length")),
                         ("lm/next", ("context", "top"))):  # fmt: skip
        for name in fields:
            for value in spoilt:
                answer = client.post(f"/api/{path}", json={name: value})
                assert "Input should" not in answer.text, (path, name, value)
                assert "something else" not in answer.text, (path, name, value, answer.text)
    assert client.get("/api/parse").json()["error"] == "not a method of this address"
    assert client.get("/api/none").json()["error"] == "there is nothing at this address"
    broken = client.post("/api/parse", content=b"{", headers={"Content-Type": "application/json"})
    assert "JSON" in broken.json()["error"]


# -- what a page needs so that its words fit the model --------------------------------------------


def test_text_is_tokenised_for_every_kind_of_model(client: Client) -> None:
    words = ["The", "dog", "sleeps", "."]
    tree = ask(client, "parse", sentence="The dog sleeps.")["tree"]
    assert sw.Tree.parse(tree).words() == words
    arcs = ask(client, "depend", sentence="The dog (he) sleeps.")
    assert arcs["words"] == ["The", "dog", "(", "he", ")", "sleeps", "."]
    text = ask(client, "lm/surprise", sentence="The dog sleeps.")["words"]
    assert [row["word"] for row in text] == ["the", "dog", "sleeps", ".", "</s>"]
    assert text[0]["known"]  # as "the"
    assert ask(client, "lm/next", context="The dog's")["context"] == ["the", "dog", "'s"]


def test_words_of_a_language_model_that_are_given_stay_as_they_are(client: Client) -> None:
    text = ask(client, "lm/surprise", words=["The", "dog."])["words"]
    assert [(row["word"], row["known"]) for row in text[:2]] == [("The", False), ("dog.", False)]


def test_unknown_words_of_a_context_are_named(client: Client) -> None:
    found = ask(client, "lm/next", context="the zebra saw the zebra")
    assert found["unknown"] == ["zebra"]


def test_a_tree_in_brackets_stands_for_its_words(client: Client) -> None:
    for path in ("parse", "posteriors", "depend", "lm/surprise"):
        plain = ask(client, path, sentence="they sleep .")
        assert ask(client, path, sentence=TREE) == plain, path


def test_traits_of_bundled_models_are_those_of_the_models_themselves() -> None:
    from sapwood.web.models import traits_of

    for loaded in bundled_models():
        if loaded.kind == "trees":  # the others take long to learn
            assert loaded.traits == traits_of(loaded.model), loaded.name
    rows = {loaded.name: loaded.as_dict() for loaded in bundled_models()}
    can = [name for name, row in rows.items() if row["can_sample"]]
    assert can == ["bundled", "bundled-cluster", "bundled-mix"]
    assert rows["bundled-mix"]["n_members"] == 3


def test_examples_of_spectral_directions_lie_where_the_words_do(client: Client) -> None:
    (card,) = ask(client, "states", model="spectral", label="NN")["symbols"]
    (found,) = ask(client, "examples", model="spectral", label="NN")["symbols"]
    assert [row["dimension"] for row in found["directions"]] == list(range(1, card["states"] + 1))
    for words, row in zip(card["dimensions"][:2], found["directions"], strict=False):
        for side, other in (("positive", "negative"), ("negative", "positive")):
            heads = set(row[side]["head_words"])
            assert heads & {one["word"] for one in words[side]["words"]}
            assert not heads & {one["word"] for one in words[other]["words"][:5]}
            for example in row[side]["examples"]:
                assert example["end"] == example["start"] + 1


def test_models_are_described_without_names_of_classes(store: ModelStore) -> None:
    from sapwood.web.models import describe_loaded

    told = {name: describe_loaded(loaded.model) for name, loaded in store.models.items()}
    assert told["bundled"].startswith("hand-written: 15 phrases, 37 tags")
    assert told["spectral"].startswith("spectral: ")
    assert told["mix"].startswith("A mix of 2: pcfg 0.50, spectral 0.50")
    assert told["arcs"].startswith("first: 1 member")
    assert told["text"].startswith("4 states, ")


def test_lines_of_the_page_can_be_read() -> None:
    from importlib import resources

    for file in resources.files("sapwood.web").joinpath("static").iterdir():
        if file.name.endswith(".js"):
            longest = max(map(len, file.read_text(encoding="utf-8").splitlines()))
            assert longest <= 120, file.name
