"""Test the embedded treebank: its format and the shapes of its trees."""

import importlib.resources

import conllu

from tests.cases import cases

PATH = importlib.resources.files("nbsal.samples") / "parses.conllu"
SENTENCES = conllu.parse(PATH.read_text(encoding="utf-8"))


@cases("sentence", SENTENCES)
def test_forms_rebuild_the_text(sentence):
    spaces = ["" if (t["misc"] or {}).get("SpaceAfter") == "No" else " " for t in sentence]
    rebuilt = "".join(t["form"] + space for t, space in zip(sentence, spaces, strict=True))
    assert rebuilt.rstrip() == sentence.metadata["text"]
    assert 5 <= len(sentence.metadata["text"].split()) <= 22


@cases("sentence", SENTENCES)
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
