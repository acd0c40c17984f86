"""Test the embedded treebank: its format, the shapes of its trees and the consistency of its annotation."""

import importlib.resources
from collections import Counter

import conllu

UPOS = set("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split())
RELATIONS = set(
    "acl advcl advmod amod appos aux case cc ccomp clf compound conj cop csubj dep det discourse "
    "dislocated expl fixed flat goeswith iobj list mark nmod nsubj nummod obj obl orphan parataxis "
    "punct reparandum root vocative xcomp".split()
)
NOMINAL = {"NOUN", "PROPN", "PRON", "NUM"}
TAGS_OF = {"advmod": {"ADV", "PART"}, "amod": {"ADJ", "VERB"}, "aux": {"AUX"}, "cop": {"AUX"}}
TAGS_OF |= {"case": {"ADP", "PART"}, "mark": {"SCONJ", "PART"}, "cc": {"CCONJ"}, "det": {"DET"}}
TAGS_OF |= {"nsubj": NOMINAL, "obj": NOMINAL, "iobj": NOMINAL, "nummod": {"NUM"}}
LEAST = {"nsubj": 150, "obj": 110, "amod": 110, "advmod": 80}
FUNCTION_RELATIONS = {"aux", "case", "cc", "cop", "det", "mark", "punct"}
PATH = importlib.resources.files("nbsal.samples") / "parses.conllu"
SENTENCES = conllu.parse(PATH.read_text(encoding="utf-8"))


def each_sentence(check):
    """A test that lists all sentences that fail a check."""

    def test():
        failures = {}
        for sentence in SENTENCES:
            try:
                check(sentence)
            except AssertionError as error:
                failures[sentence.metadata["sent_id"]] = error
        assert not failures

    return test


def base(token):
    return token["deprel"].split(":")[0]


def test_there_are_150_distinct_sentences_numbered_in_order():
    assert [s.metadata["sent_id"] for s in SENTENCES] == [f"nbsal-{i:03d}" for i in range(1, 151)]
    assert len({s.metadata["text"] for s in SENTENCES}) == 150


def test_the_relations_under_study_are_frequent():
    counts = Counter(t["deprel"] for s in SENTENCES for t in s)
    assert not {relation: counts[relation] for relation, least in LEAST.items() if counts[relation] < least}


@each_sentence
def test_forms_rebuild_the_text(sentence):
    spaces = ["" if (t["misc"] or {}).get("SpaceAfter") == "No" else " " for t in sentence]
    rebuilt = "".join(t["form"] + space for t, space in zip(sentence, spaces, strict=True))
    assert rebuilt.rstrip() == sentence.metadata["text"]
    assert 5 <= len(sentence.metadata["text"].split()) <= 22


@each_sentence
def test_heads_form_one_projective_tree(sentence):
    heads = {t["id"]: t["head"] for t in sentence}
    assert list(heads) == list(range(1, len(sentence) + 1))
    assert set(heads.values()) <= {0, *heads}
    assert list(heads.values()).count(0) == 1
    assert all((t["head"] == 0) == (t["deprel"] == "root") for t in sentence)
    above = {i: [i] for i in heads}
    for path in above.values():
        while path[-1]:
            path.append(heads[path[-1]])
            assert len(path) == len(set(path)), f"cycle: {path}"
    for child, head in heads.items():
        between = range(min(child, head) + 1, max(child, head))
        assert all(head in above[i] for i in between), f"arc {head} to {child} crosses another"


@each_sentence
def test_labels_and_tags_agree(sentence):
    for token in sentence:
        relation, head = base(token), token["head"] and sentence[token["head"] - 1]
        assert token["lemma"] and token["upos"] in UPOS and relation in RELATIONS, token
        assert token["upos"] in TAGS_OF.get(relation, UPOS), token
        assert (relation == "punct") == (token["upos"] == "PUNCT"), token
        assert relation != "cop" or token["lemma"] == "be", token
        if relation == "amod" and token["upos"] == "VERB":
            assert token["form"].endswith(("ed", "en", "ing")), f"{token} is no participle"
        if head and base(head) in FUNCTION_RELATIONS:
            assert relation in {"advmod", "fixed"}, f"{token} hangs on a function word"
        if relation in {"obj", "iobj"}:
            assert head["upos"] == "VERB", token
        if relation == "nsubj" and head["upos"] != "VERB":
            assert "cop" in {t["deprel"] for t in sentence if t["head"] == head["id"]}, token
