"""Files that an earlier version saved, in `tests/data/saved`, still load, and hold what is computed today."""

from pathlib import Path

import numpy as np
import pytest

import nbsal

FOLDERS = sorted((Path(__file__).parent / "data" / "saved").iterdir())
TEXT = "A warm and funny film."


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_files_of_earlier_versions_load(folder, reviews):
    notes, explain = nbsal.load("demo/notes"), nbsal.Explainer(reviews, "decoded-gradcam", layer=5)
    saliency, layers = nbsal.Saliency.load(folder / "saliency.json"), nbsal.LayerSaliency.load(folder / "layers.json")
    assert np.allclose(saliency.scores, explain(TEXT).scores, rtol=1e-3, atol=1e-6) and saliency.text == TEXT
    assert np.allclose(layers.scores, explain.every_layer(TEXT).scores, rtol=1e-3, atol=1e-6)
    answer = nbsal.Answer.load(next(folder.glob("answer.*")))
    asked = [{"role": "user", "content": "Where does Mara live?"}]
    documents = ["Mara lives in Oslo now.", "Boris lives in Rouen."]
    options = {"documents": documents, "unit": "document", "method": "occlusion", "progress": False}
    today = nbsal.answer(notes, asked, reply=answer.ids, **options)
    assert np.allclose(answer.scores, today.scores, rtol=1e-3, atol=1e-4) and answer.text == today.text
    games = nbsal.evaluation.Results.load(folder / "games.npz")
    assert {"ours", "rollout", "random"} <= set(games.auc()["explainer"]) and games.auc()["auc"].between(0, 1).all()
    mask = nbsal.heads.HeadMask.load(folder / "mask.json")
    assert (mask.selected == reviews.mask.selected).all()
    assert nbsal.heads.HeadStudy.load(next(folder.glob("study.*"))).cases["amod"] == 1
    for path in folder.glob("audit.*"):  # kinds that came with 0.2.0
        audit = nbsal.Audit.load(path)
        assert audit.texts[0] == TEXT and np.allclose(sum(audit.scores[0]), saliency.scores[1:-1].sum(), rtol=1e-3)
    for path in folder.glob("followed.*"):
        followed = nbsal.Answer.load(path)
        assert followed.hops == 2 and followed.evidence is not None and followed.followed.scores.any()
    corpus = nbsal.corpus.open(folder / "corpus")
    assert corpus.verify() == [] and corpus[0].text == "Mara lives in"
