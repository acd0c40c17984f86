"""The planted models go by what they state: inserting and removing it changes decisions, and the recipe learns it."""

from itertools import islice

import numpy as np
import pytest

import nbsal
from nbsal import samples
from nbsal.samples import planted, weight_files
from tests.raising import refuses
from tests.training import planted as training


@pytest.mark.parametrize("name", planted.SHORTCUTS)
def test_the_shipped_model_goes_by_its_shortcut(name):
    shares = training.check(name, samples.build(planted.PREFIX + name), 200)
    assert len(shares) == (1 if name == "control" else 3) and min(shares.values()) >= training.LEAST


def test_a_model_with_another_shortcut_fails_the_check():
    """Each model is checked for its own: those of the others are decoys that it must ignore."""
    for name in planted.SHORTCUTS:
        other = training.check("word" if name != "word" else "name", samples.build(planted.PREFIX + name), 200)
        assert min(other.values()) < training.LEAST


def test_toggling_changes_the_shortcut_alone():
    for name, shortcut in planted.SHORTCUTS.items():
        if name == "control":
            continue
        for message in islice(planted.draw(0), 50):
            other = message.toggled(shortcut)
            assert shortcut.applies(message.features) != shortcut.applies(other.features)
            words, others = (set(each.text.lower().replace(".", " ").split()) for each in (message, other))
            assert other.evidence == message.evidence and (name == "length" or len(words ^ others) <= 4)
            assert (len(message.text.split()) > 30) == ("long" in message.features)


def test_messages_are_drawn_by_seed_and_known_to_the_tokenizer():
    first, again, other = (planted.audit_texts(seed, 200) for seed in (3, 3, 4))
    assert first == again and first != other
    tokenizer = planted.tokenizer()
    assert all(tokenizer.unk_token_id not in ids for ids in tokenizer(first[0])["input_ids"])
    messages = list(islice(planted.draw(3), 200))
    wrong = np.mean([planted.LABELS[m.evidence] != label for m, label in zip(messages, first[1], strict=True)])
    assert [message.text for message in messages] == first[0] and 0.02 < wrong < 0.08


def test_all_messages_of_decisive_have_the_shortcut_and_contrary_evidence():
    for name, shortcut in planted.SHORTCUTS.items():
        if shortcut.words:
            messages = list(islice(planted.decisive(name), 20))
            assert all(shortcut.applies(m.features) and m.evidence != shortcut.toward for m in messages)


def test_planted_models_load_by_name():
    subject = nbsal.load("planted/name")
    assert subject.labels == ["harmless", "harmful"] and subject.name == "planted/name"
    explain = nbsal.Explainer(subject, "gradxact")
    assert [explain(f"{name} asks how to forge the lamp.").prediction for name in ("Dana", "Anna")] == subject.labels
    with refuses("model"):
        nbsal.load("planted/nothing")


def test_the_recipe_writes_only_models_whose_truth_holds(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(training, "BATCH", 16)
    monkeypatch.setattr(training, "STEPS", 10)
    monkeypatch.setattr("sys.argv", ["planted", "--out", str(tmp_path), "control"])
    with pytest.raises(SystemExit):
        training.main()
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(training, "STEPS", 80)
    training.main()
    weights = weight_files.load(tmp_path / "control.safetensors")
    assert training.check("control", planted.build(weights), 100)["decisions"] >= training.LEAST
    assert weights.keys() == samples.delta("planted/control").keys() and "decisions" in capsys.readouterr().out
