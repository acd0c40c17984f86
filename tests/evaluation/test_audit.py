"""An audit: what its tables say equals the model with the words taken out, whatever the settings and interruptions."""

import json
import re
from dataclasses import replace
from functools import reduce
from operator import getitem
from threading import Event

import numpy as np
import pytest
import torch

import nbsal
from nbsal.cli import main
from nbsal.evaluation.audit.measure import plan_audit
from nbsal.evaluation.permutation import fisher_p
from nbsal.support.errors import Cancelled
from tests.raising import refuses

SETTINGS = {"least": 2, "progress": False}
FORGED = (
    *((("effects", 0, "texts", 0), 40), (("effects", 0, "word"), 7), (("effects", 0, "named"), "<b>")),
    *((("effects", 0, "scores", 0), "x"), (("scores", 0, 0), float("nan")), (("spans", 0, 0), [0, 0.0, 1.0])),
    *((("confidences", 0), "x"), (("confidences", 0), 7.0), (("groups", "half", 0), [1])),
    *((("corrections", 0, "words"), [7]), (("provenance",), {}), (("provenance", "passes"), "x")),
)


@pytest.fixture(scope="module")
def reviews():
    rows = nbsal.samples.texts("reviews")[:40]
    return [row["text"] for row in rows], [row["label"] for row in rows]


@pytest.fixture(scope="module")
def explain(small):
    return nbsal.Explainer(small, "random")  # names words that are in many texts


@pytest.fixture(scope="module")
def audit(explain, reviews):
    texts, labels = reviews
    # Labels that are wrong on purpose, so that there are mistakes.
    wrong = ["negative" if i % 9 == 0 else label for i, label in enumerate(labels)]
    return nbsal.audit(explain, texts, wrong, groups={"half": [i < 20 for i in range(40)]}, **SETTINGS)


def decide(explain, row, hidden):
    """The logits of a text whose hidden words nobody attends to."""
    subject = explain.subject
    inputs = subject.inputs(nbsal.Encoded([row], subject.text_encoder.pad_id))
    for word in row.words:
        if word.text.casefold() in hidden:
            inputs["attention_mask"][0, list(word.tokens)] = 0
    with torch.no_grad():
        return subject.model(**inputs).logits[0].double()


def test_the_tables_are_what_literal_masking_gives(explain, audit):
    rows = explain.subject.encode(list(audit.texts))
    labels, before = np.array(audit.labels), np.array([int(decide(explain, row, ()).argmax()) for row in rows])
    assert list(audit.predictions) == before.tolist() and len(audit.words) >= 5
    for row in audit.words.head(6).itertuples():
        having = [i for i, text in enumerate(rows) if any(w.text.casefold() == row.word for w in text.words)]
        after = [decide(explain, rows[i], {row.word}) for i in having]
        decided = np.array([int(logits.argmax()) for logits in after])
        index = audit.classes.index(row.speaks_for)
        odds = [decide(explain, rows[i], ())[index] - decide(explain, rows[i], ())[1 - index] for i in having]
        pulls = [float(o - (logits[index] - logits[1 - index])) for o, logits in zip(odds, after, strict=True)]
        was, now = before[having] == labels[having], decided == labels[having]
        assert (row.texts, row.corrects, row.breaks) == (len(having), (now & ~was).sum(), (was & ~now).sum())
        assert row.flips == (decided != before[having]).sum() and row.pull == pytest.approx(np.mean(pulls), abs=1e-4)
        assert row.excess == pytest.approx((before[having] == index).mean() - (labels[having] == index).mean())
        inside, others = np.isin(range(40), having), labels != index
        hits = (before == index) & others
        assert row.p >= fisher_p((hits & inside).sum(), (others & inside).sum(), hits.sum(), others.sum())


def test_the_words_behind_a_mistake_correct_it_and_no_fewer_do(explain, audit):
    rows = explain.subject.encode(list(audit.texts))
    assert audit.mistakes.number.tolist() == audit.wrong and audit.mistakes.corrected.any()
    for row in audit.mistakes.itertuples():
        gold = audit.classes.index(row.label)
        words = {word.casefold() for word in row.words}
        assert row.corrected == bool(words)
        if words:
            assert int(decide(explain, rows[row.number], words).argmax()) == gold
            for word in words if len(words) > 1 else ():
                assert int(decide(explain, rows[row.number], words - {word}).argmax()) != gold


def test_a_flip_is_the_smallest_set(explain):
    found = nbsal.flip(explain, "A dull, dull film with a warm heart.")
    assert found.exact and found.changes and found.after != found.before
    assert found.places == tuple(i for i, word in enumerate(explain(found.text).words) if word.text in found.words)
    rows = explain.subject.encode([found.text])
    single = {word.text.casefold() for word in rows[0].words}
    turned = [
        word
        for word in single
        if explain.subject.labels[int(decide(explain, rows[0], {word}).argmax())] != found.before
    ]
    assert (len(found.words) == 1) == bool(turned)
    assert nbsal.flip(explain, found.text, to=found.after).words == found.words
    assert {*found.words, found.before, found.after} <= set(re.findall(r"\w+", found.sentence))
    for to in ("neutral", found.before):
        with refuses("to"):
            nbsal.flip(explain, found.text, to=to)


def test_slices_find_where_a_classifier_errs(audit):
    frame = audit.slices
    half = frame[(frame.slice == "half") & (frame.value == "True")].iloc[0]
    assert half.texts == 20 and half.errors == sum(i < 20 for i in audit.wrong)
    assert half.rest == pytest.approx(sum(i >= 20 for i in audit.wrong) / 20)
    assert half.low < half.rate < half.high and (frame.p_holm >= frame.p - 1e-12).all()
    assert {"words", "label", "prediction"} <= set(frame.slice)


def test_an_interrupted_audit_resumes_and_is_equal(explain, reviews, audit):
    texts = list(audit.texts)
    labels = [audit.classes[label] for label in audit.labels]
    cancel, calls = Event(), []

    def stop(done, total):
        calls.append(done)
        if done > total * 0.6:
            cancel.set()

    arguments = {"groups": {"half": [i < 20 for i in range(40)]}, "least": 2}
    with pytest.raises(Cancelled) as stopped:
        nbsal.audit(explain, texts, labels, progress=stop, cancel=cancel, **arguments)
    cache = stopped.value.partial
    masked = next(iter(cache.masked_models.values()))
    run_before = masked.forwards
    resumed = nbsal.audit(explain, texts, labels, progress=False, cache=cache, **arguments)
    assert resumed.words.equals(audit.words) and resumed.mistakes.equals(audit.mistakes) and run_before
    run_after = masked.forwards
    nbsal.audit(explain, texts, labels, progress=False, cache=cache, **arguments | {"least": 3})
    assert masked.forwards == run_after  # other thresholds run nothing again


def test_a_saved_audit_is_equal_and_a_damaged_one_refused(audit, tmp_path):
    path = tmp_path / "audit.json"
    audit.save(path)
    loaded = nbsal.Audit.load(path)
    assert loaded.to_html() == audit.to_html() and loaded.slices.equals(audit.slices)
    with refuses("words"):
        loaded.hide(audit.words.word[0])
    content = path.read_text()
    for place, value in FORGED:
        forged = json.loads(content)
        *steps, last = ["audit", *place]
        reduce(getitem, steps, forged)[last] = value
        path.write_text(json.dumps(forged))
        with refuses("path"):
            nbsal.Audit.load(path)


def test_a_file_with_two_models_tells_of_the_same_words(audit, tmp_path):
    path, both = tmp_path / "audit.json", replace(audit, other=audit)
    both.save(path)
    assert nbsal.Audit.load(path).to_html() == both.to_html()
    for other in (
        replace(audit, effects=audit.effects[::-1]),
        replace(audit, effects=audit.effects[1:]),
        replace(audit, labels=None),
        replace(audit, classes=audit.classes[::-1]),
        both,
    ):
        replace(audit, other=other).save(path)
        with refuses("path"):
            nbsal.Audit.load(path)


def test_words_are_hidden_together(explain, audit):
    words = audit.words.word.head(2).tolist()
    effect = audit.hide(words)
    rows = explain.subject.encode(list(audit.texts))
    alone = next(each for each in audit.effects if each.word == words[0])
    assert audit.hide(words[0]).without == alone.without
    for wrong in (["no such word"], []):
        with refuses("words"):
            audit.hide(wrong)
    assert effect.without == tuple(int(decide(explain, rows[i], set(words)).argmax()) for i in effect.texts)


def test_without_labels_only_what_words_do_is_known(explain, reviews):
    result = nbsal.audit(explain, reviews[0][:16], **SETTINGS)
    assert "corrects" not in result.words and "flips" in result.words
    assert not len(result.slices) and not len(result.mistakes) and result.to_html() and result.plot()


def test_another_model_has_its_own_numbers(explain, reviews):
    other = nbsal.Explainer(nbsal.load("demo/reviews-small"), explain.method)
    with torch.no_grad():
        other.subject.model.classifier.bias += torch.tensor([1.5, -1.5])
    result = nbsal.audit(explain, *reviews, other=other, **SETTINGS)
    alone = nbsal.audit(other, *reviews, **SETTINGS)
    assert result.other.predictions == alone.predictions != result.predictions
    assert {"pull_other", "corrects_other", "breaks_other"} <= set(result.words)


def test_the_plan_holds(explain, reviews):
    plan = plan_audit(explain, reviews[0][:16], least=2)
    assert nbsal.audit(explain, reviews[0][:16], **SETTINGS).provenance["passes"] <= plan.passes


def test_what_cannot_be_audited_is_refused(explain, reviews):
    with refuses("labels"):
        nbsal.audit(explain, reviews[0], reviews[1][:-1], **SETTINGS)
    with refuses("label"):
        nbsal.audit(explain, reviews[0], ["neutral"] * 40, **SETTINGS)
    with refuses("groups"):
        nbsal.audit(explain, reviews[0], groups={"part": [1]}, **SETTINGS)
    with refuses("text"):
        nbsal.audit(explain, ["A joy.", " "], **SETTINGS)
    with refuses("texts"):
        nbsal.audit(explain, "Ajoy", **SETTINGS)
    with refuses("texts"):
        plan_audit(explain, "Ajoy")
    with refuses("explainers"):
        nbsal.audit(nbsal.Explainer(nbsal.load("demo/answers"), "gradxact"), ["A joy."], **SETTINGS)
    only = nbsal.audit(explain, reviews[0][:4], ["positive"] * 4, **SETTINGS)
    assert any("positive" in note for note in only.notes)
    assert "nan" not in nbsal.audit(explain, ["A dull film.", "A bore."], least=1, progress=False).to_html()


def test_the_command_line_audits_a_file(tmp_path, reviews, capsys):
    source = tmp_path / "reviews.jsonl"
    rows = [{"text": text, "label": label} for text, label in zip(*(each[:12] for each in reviews), strict=True)]
    source.write_text("\n".join(map(json.dumps, rows)))
    page, saved = tmp_path / "audit.html", tmp_path / "audit.json"
    model = ["--model", "demo/reviews-small", "--method", "random"]
    arguments = ["audit", str(source), "--label", "label", "--least", "2", *model]
    assert main([*arguments, "--plan"]) == 0 and not page.exists()
    assert main([*arguments, "--html", str(page), "--json", str(saved)]) == 0
    audit = nbsal.Audit.load(saved)
    assert audit.sentence in capsys.readouterr().out and page.read_text() == audit.to_html()
    assert main(["audit", str(source), "--text", "none"]) == 2
