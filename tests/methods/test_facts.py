"""The facts about methods: stated in the classes alone, and read from there with and without importing these."""

import importlib
import sys

import pytest

import nbsal
from nbsal.cli import main
from nbsal.methods import catalogue, default, labels
from nbsal.methods.base import REGISTER
from nbsal.methods.facts import label_of, stated
from nbsal.model.served.served_model import Served
from nbsal.widgets.content.asked import reply_choices
from nbsal.widgets.page import choices
from tests.docs import methods as page

NEW = '''
from dataclasses import dataclass
from nbsal.methods.base import register
from nbsal.methods.facts import Facts
from nbsal.methods.perturbation import Occlusion

@register("doubled", paper="Roe 2026", promise={"nonnegative", "about_target", "zero_at_special"})
@dataclass(frozen=True)
class Doubled(Occlusion):
    """Occlusion, twice as strong."""

    facts = Facts("Doubled occlusion", "Takes each word away twice.", recommended=99, start="to be sure", replies=99)

    def scores(self, trace):
        return 2 * super().scores(trace).abs()
'''


@pytest.fixture
def doubled(tmp_path, monkeypatch):
    """A method that one file adds."""
    (tmp_path / "nbsal_doubled.py").write_text(NEW)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("nbsal_doubled").Doubled
    REGISTER.pop("doubled", None)
    del sys.modules["nbsal_doubled"]
    Served.methods.remove("doubled")


def listed(described):
    """The methods of a list, by name."""
    return {method["name"]: method for method in choices._LISTS[described["methods"]]}


def test_a_method_is_added_in_one_file(doubled, reviews, capsys):
    assert "doubled" in catalogue.names() and catalogue.table().loc["doubled", "paper"] == "Roe 2026"
    assert main(["methods"]) == 0
    begin, rest = capsys.readouterr().out.split("\n\n", 1)
    assert "doubled" in begin and "to be sure" in begin and "Takes each word away twice." in rest
    explain, notes = nbsal.Explainer(reviews), nbsal.Explainer(nbsal.load("demo/notes"), "gae")
    offered = {method["name"]: method for method in choices.offered_methods(explain)}
    for described in (offered["doubled"], listed(reply_choices(notes, "document"))["doubled"]):
        assert (described["label"], described["group"]) == ("Doubled occlusion", "recommended")
    assert "per document" in described["cost"], "it hides, so it takes passes for each part"
    assert "doubled" in Served.methods
    assert catalogue.table().loc["doubled", "cost"] in "\n".join(
        page.method("doubled", catalogue.table().loc["doubled"], {"formula": "2 s_i"})
    )


def test_a_result_says_the_label_where_nobody_has_the_method(doubled, reviews, tmp_path):
    nbsal.Explainer(reviews, "doubled")("A joy.").save(tmp_path / "saved.nbsal")
    del REGISTER["doubled"]
    saved = nbsal.Saliency.load(tmp_path / "saved.nbsal")
    assert "Doubled occlusion" in saved.notes()[0] and not saved.signed and saved.about_target


def test_what_is_read_from_the_sources_is_what_the_classes_state():
    methods = catalogue.every_method()
    assert stated() == {name: method.facts for name, method in methods.items() if "@" not in name}
    assert {n: label_of(n) for n in methods} == {n: method.facts.label for n, method in methods.items()}
    assert {name for name in stated() if labels.own_promise(name) is None} == set()


def test_no_two_methods_share_a_label_or_a_place():
    facts = [*stated().values()]
    for name in ("recommended", "replies", "look"):
        places = [place for each in facts if (place := getattr(each, name)) or (name == "look" and place == 0)]
        assert len(places) == len(set(places)) > 5, name
    names = [label_of(name) for name in catalogue.names()]
    assert len(names) == len(set(names))
    for use in {use for each in facts for use in each.default_for}:
        places = sorted(each.default_for[use] for each in facts if use in each.default_for)
        assert places == [*range(1, len(places) + 1)], use
    assert default.FOR_DECISIONS[-1] == default.FOR_REPLIES[-1] == "occlusion", "it runs on every model"
