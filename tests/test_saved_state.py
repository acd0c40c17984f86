"""Files that an earlier version saved, in `tests/data/saved`, still load, and hold what is computed today."""

import json
from pathlib import Path

import numpy as np
import pytest

import nbsal
from tests.raising import refuses

FOLDERS = sorted((Path(__file__).parent / "data" / "saved").iterdir())
TEXT = "A warm and funny film."


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_files_of_earlier_versions_load(folder, reviews):
    notes, explain = nbsal.load("demo/notes"), nbsal.Explainer(reviews, "decoded-gradcam", layer=5)
    saliency, layers = nbsal.Saliency.load(folder / "saliency.json"), nbsal.LayerSaliency.load(folder / "layers.json")
    assert np.allclose(saliency.scores, explain(TEXT).scores, rtol=1e-3, atol=1e-6) and saliency.text == TEXT
    assert np.allclose(layers.scores, explain.every_layer(TEXT).scores, rtol=1e-3, atol=1e-6)
    assert "label" not in saliency.provenance and "Decoded Grad-CAM" in saliency.notes()[0]
    answer = nbsal.Answer.load(folder / "answer.json")
    assert "Occlusion, " in answer.notes()[1]
    asked = [{"role": "user", "content": "Where does Mara live?"}]
    documents = ["Mara lives in Oslo now.", "Boris lives in Rouen."]
    options = {"documents": documents, "unit": "document", "method": "occlusion", "progress": False}
    today = nbsal.answer(notes, asked, reply=answer.ids, **options)
    assert np.allclose(answer.scores, today.scores, rtol=1e-3, atol=1e-4) and answer.text == today.text
    games = nbsal.evaluation.Results.load(folder / "games.npz")
    assert {"ours", "rollout", "random"} <= set(games.auc()["explainer"]) and games.auc()["auc"].between(0, 1).all()
    mask = nbsal.heads.HeadMask.load(folder / "mask.json")
    assert (mask.selected == reviews.mask.selected).all()
    assert nbsal.heads.HeadStudy.load(folder / "study.json").cases["amod"] == 1
    audit, followed = nbsal.Audit.load(folder / "audit.json"), nbsal.Answer.load(folder / "followed.json")
    assert audit.texts[0] == TEXT and np.allclose(sum(audit.scores[0]), saliency.scores[1:-1].sum(), rtol=1e-3)
    assert followed.hops == 2 and followed.evidence is not None and followed.followed.scores.any()
    corpus = nbsal.corpus.open(folder / "corpus")
    assert corpus.verify() == [] and corpus[0].text == "Mara lives in"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_special_tokens_are_left_out_of_the_text_of_early_replies(folder, tmp_path):
    content = json.loads((folder / "answer.json").read_text())
    reply, end = content["reply"], len(content["reply"]["reply"])
    early = reply | {"reply": f"{reply['reply']}</s>", "reply_spans": [*reply["reply_spans"][:-1], [end, end + 4]]}
    (tmp_path / "early.json").write_text(json.dumps(content | {"reply": early}))
    today, loaded = nbsal.Answer.load(folder / "answer.json"), nbsal.Answer.load(tmp_path / "early.json")
    assert loaded.text == today.text and loaded.reading.reply_spans == today.reading.reply_spans


@pytest.mark.parametrize(("kind", "name", "field"), [
    (nbsal.Saliency, "saliency.json", "checks"), (nbsal.Answer, "answer.json", "evidence"),
    (nbsal.Answer, "answer.json", "followed"), (nbsal.heads.HeadMask, "mask.json", "provenance"),
])  # fmt: skip
def test_results_of_version_0_1_0_are_refused_by_the_fields_they_lack(kind, name, field, tmp_path):
    content = json.loads((FOLDERS[0] / name).read_text())
    del content[field]
    (tmp_path / name).write_text(json.dumps(content))
    with refuses("path"):
        kind.load(tmp_path / name)
