"""Methods are ranked by what they find of known reasons, and a broken one falls."""

from dataclasses import dataclass
from itertools import islice

import numpy as np
import pytest

import nbsal
from nbsal import cli
from nbsal.evaluation.results import Results
from nbsal.evaluation.worlds import GuardWorld, NoteWorld, World, share_of_places
from nbsal.methods.ifr import IFR
from nbsal.samples import facts, planted
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter
from tests.raising import refuses


@dataclass(frozen=True)
class Shifted(IFR):
    """Information flow routes that give each position what its neighbours send."""

    def route_shares(self, *arguments):
        return super().route_shares(*arguments).roll(7, -1)


def shifted(subject):
    return nbsal.Explainer(subject, Shifted())


def test_a_broken_method_falls_beyond_chance():
    results = nbsal.evaluation.arena({"ifr": "ifr", "shifted": shifted}, "notes", size=12, progress=False)
    assert results.ranks("notes")["rank"].to_dict() == {"ifr": 1, "shifted": 2}


def test_methods_that_tie_have_the_same_rank():
    methods = {"occlusion": "occlusion", "again": "occlusion", "random": "random"}
    results = nbsal.evaluation.arena(methods, "classifiers", size=24, progress=False)
    assert results.ranks("classifiers")["rank"].to_dict() == {"occlusion": 1, "again": 1, "random": 3}
    assert results.notes == ("classifiers: 24 cases",)


@pytest.mark.parametrize(("scores", "places", "count", "share"), [
    ([3, 1, 2], [0], 1, 1.0),
    ([3, 1, 2], [0, 1], 2, 0.5),
    ([1, 1, 0, 1], [0], 1, 1 / 3),
    ([2, 1, 1, 0], [0, 1], 2, 0.75),
    ([0, 0], [], 1, 0.0),
])  # fmt: skip
def test_scores_that_tie_count_as_their_share(scores, places, count, share):
    assert share_of_places(np.array(scores, float), places, count) == pytest.approx(share)


def test_where_a_part_of_the_shortcut_stands_the_verb_decides():
    cases = GuardWorld().draw(24, 3, Meter(None))
    verbs = [case for case in cases if case.words == planted.VERBS[planted.HARMFUL]]
    assert len(verbs) == 14 and all(any(word in case.text.casefold() for word in case.words) for case in cases)
    assert all(("quietly" in case.text) != ("tonight" in case.text) for case in verbs if case.model == "pair")
    assert all(" today" in case.text for case in verbs if case.model == "position")


def test_a_method_that_cannot_explain_a_world_has_no_row_there():
    results = nbsal.evaluation.arena(["alti", "occlusion"], ["classifiers", "notes"], size=2, progress=False)
    assert ("alti", "notes") not in results.curves
    results.table()
    results.plot()
    assert not len(results.paired("alti", measures=["notes"]))
    assert results.best("notes") == "occlusion"


def test_replies_that_are_right_without_documents_are_left_out(monkeypatch):
    world = NoteWorld()
    monkeypatch.setattr(
        world, "questions", lambda seed: iter([facts.SourcedQuestion("Where?", ("It is so.",), "", (0,), "")])
    )
    assert world.draw(1, 0, Meter(None)) == [] and world.known == 1


def test_a_fact_stands_in_one_document_only():
    for question in islice(facts.questions(3), 60):
        assert [question.value in document for document in question.documents].count(True) == 1


def test_an_order_takes_the_place_of_another_document():
    for question, order in islice(zip(facts.questions(2), facts.injections(2), strict=False), 40):
        changed = [
            n for n, pair in enumerate(zip(question.documents, order.documents, strict=True)) if len({*pair}) > 1
        ]
        assert tuple(changed) == order.sources != question.sources
        assert question.answer in question.documents[question.sources[0]]


def test_the_command_takes_methods_of_other_packages(tmp_path, monkeypatch, capsys):
    (tmp_path / "their_methods.py").write_text(
        "import nbsal\n\n\ndef words(subject):\n    return nbsal.Explainer(subject, 'occlusion')\n"
    )
    monkeypatch.chdir(tmp_path)
    command = ["arena", "their_methods:words", "random", "--world", "classifiers", "--size", "24"]
    assert cli.main([*command, "--save", "arena.nbsal"]) == 0 and "their_methods:words" in capsys.readouterr().out
    ranks = Results.load("arena.nbsal").ranks("classifiers")["rank"].to_dict()
    assert ranks == {"their_methods:words": 1, "random": 2}
    assert cli.main(["arena", "their_methods:none"]) == 2 and cli.main(["arena", "random", "--world", "moon"]) == 2


def test_worlds_of_your_own_and_unknown_ones():
    class Empty(World):
        name = "empty"

        def draw(self, size, seed, meter):
            return []

        def found(self, make, case):
            return 0.0

    with refuses("worlds"):
        nbsal.evaluation.arena("random", Empty(), progress=False)
    with pytest.raises(InputError):
        nbsal.evaluation.arena("random", "moon", progress=False)
