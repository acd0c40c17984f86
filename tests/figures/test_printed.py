"""The papers' numbers: complete, and beside numbers computed here."""

import pytest

import nbsal
from nbsal.figures import printed
from tests.raising import refuses


def test_the_tables_of_the_papers_are_whole():
    shapes = {
        name: {data_set: len(rows) for data_set, rows in getattr(printed, name).items()}
        for name in ("AREAS", "SIMPLE_AREAS", "DELETION", "MASK_PARTS", "ANSWERS")
    }
    assert shapes == {
        "AREAS": {"SST-2": 9, "AG News": 12},
        "SIMPLE_AREAS": {"SST-2": 4, "AG News": 4},
        "DELETION": {"SST-2": 11, "IMDB": 11, "Yelp": 11, "MNLI": 10, "QQP": 10},
        "MASK_PARTS": {"SST-2": 3, "QQP": 3},
        "ANSWERS": {"SQuAD v1": 4, "SQuAD v2": 4},
    }
    assert set(printed.DEVIATIONS) == set(printed.DELETION)
    assert sum(name.endswith("@thermostat") for name in printed.AREAS["AG News"]) == 7


def test_every_row_is_a_method_or_named_after_one():
    ours = nbsal.methods.catalogue.table().index
    rows = {
        row for table in (printed.AREAS, printed.DELETION, printed.ANSWERS) for part in table.values() for row in part
    }
    others = {"random mask", *(row for row in rows if "Grad-CAM l" in row)}
    assert rows - set(ours) == others


def test_numbers_stand_beside_those_of_the_paper(reviews):
    explainers = {name: nbsal.Explainer(reviews, "gradcam", layer=layer) for layer, name in ((3, "cam"), (2, "own"))}
    results = nbsal.evaluation.games(explainers, ["A joy.", "A bore."], random=0, progress=False)
    frame = printed.beside({"SST-2": results}, printed.AREAS, {"cam": "decoded Grad-CAM l6"})["SST-2", "hiding"]
    assert frame.loc["cam", "paper"] == 0.617 and frame.loc["own", ["paper", "difference"]].isna().all()
    assert frame.loc["cam", "difference"] == pytest.approx(frame.loc["cam", "here"] - 0.617)
    assert frame.index.tolist() == ["cam", "own"]
    with refuses("panels"):
        printed.beside({"samples": results}, printed.AREAS)


def test_a_method_without_a_number_has_an_empty_place():
    frame = printed.frame(printed.DELETION, printed.LOSSES)
    assert frame.isna().sum().sum() == 4  # ALTC, which Table 4 has for three data sets only
    assert frame.loc["mask-lrp", ("Yelp", "log-odds")] == -1.898
