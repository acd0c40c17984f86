"""An audit: what its tables say equals the model with the words taken out, whatever the settings and interruptions."""

import json
import math
import random
import re
from collections import Counter
from dataclasses import replace
from functools import reduce
from operator import getitem
from threading import Event

import numpy as np
import pytest
import torch

import nbsal
from nbsal.ablation.decision import DecisionText
from nbsal.ablation.engine import Ablation
from nbsal.cli import main
from nbsal.evaluation.audit import measure
from nbsal.evaluation.audit.flips import MOST, FlipSearch, find_flip
from nbsal.evaluation.audit.plan import plan_audit
from nbsal.evaluation.audit.words import log_odds, random_words, units_of
from nbsal.evaluation.permutation import fisher_p, gain_p
from nbsal.explain.sentences.decision_facts import proposed
from nbsal.model.loading.plain_values import to_plain
from nbsal.support.errors import Cancelled
from nbsal.support.progress import Meter
from tests.cases import cases
from tests.raising import refuses

SETTINGS = {"least": 2, "progress": False}
FORGED = (
    *((("effects", 0, "texts", 0), 40), (("effects", 0, "word"), 7), (("effects", 0, "named"), "<b>")),
    *((("effects", 0, "scores", 0), "x"), (("scores", 0, 0), float("nan")), (("spans", 0, 0), [0, 0.0, 1.0])),
    *((("confidences", 0), "x"), (("confidences", 0), 7.0), (("groups", "half", 0), [1])),
    *((("considered",), 0), (("considered",), 10**400)),
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
        excess_p = fisher_p((hits & inside).sum(), (others & inside).sum(), hits.sum(), others.sum())
        assert row.p == pytest.approx(max(gain_p(row.corrects, row.breaks), min(excess_p, row.p_flips)))
        drawn = [random_words(rows[i], [unit.text.casefold() for unit in units_of(rows[i])], 2) for i in having]
        beside = [{next(other for other in words if other != row.word)} for words in drawn]
        random_turns = [
            decide(explain, rows[i], some).argmax() != before[i] for i, some in zip(having, beside, strict=True)
        ]
        turns = decided != before[having]
        assert row.flips_random == sum(random_turns)
        both = list(zip(turns, map(bool, random_turns), strict=True))
        assert row.p_flips == pytest.approx(gain_p(both.count((True, False)), both.count((False, True))))


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


def test_a_flip_counts_the_different_sets_that_it_tried(explain, monkeypatch):
    hidden, original = set(), Ablation.values

    def count(self, texts, tables, *arguments):
        hidden.update(subset.tobytes() for table in tables for subset in table if not subset.all())
        return original(self, texts, tables, *arguments)

    monkeypatch.setattr(Ablation, "values", count)
    long = "The first half is dull and slow, but later the film has a warm, funny and moving heart of its own."
    for text, most in (("A dull film.", 1), ("A fine, warm, moving and funny joy.", 2), (long, 1), (long, 3)):
        hidden.clear()
        result = nbsal.flip(explain, text, most=most)
        assert result.tried == len(hidden) > 0 and (result.changes or str(result.tried) in result.sentence)
        complete = len(hidden) >= sum(math.comb(len(units_of(explain(text).row)), size) for size in range(1, most + 1))
        assert result.exact == (complete or len(result.words) == 1)
    assert nbsal.flip(explain, "A dull film.", to="positive").to == "positive"


def test_a_class_that_is_not_reached_is_named():
    def reads_three(texts):
        return [[0.8, 0.1, 0.1] if "lovely" in text else [0.1, 0.8, 0.1] for text in texts]

    explain = nbsal.Explainer(nbsal.load(reads_three, labels=["good", "bad", "odd"]), "occlusion")
    result = nbsal.flip(explain, "a lovely film", to="odd")
    assert not result.changes and result.exact and result.tried == 7, "other sets do turn it, to another class"
    assert result.to == "odd" and {"good", "odd"} <= set(re.findall(r"\w+", result.sentence))


def test_one_word_that_turns_a_long_text_is_found_whatever_its_score(opinions):
    text = "the story of the film was lovely from start to end as everyone had expected and umbrella said"
    scored = replace(opinions(text), scores=tuple(-score for score in opinions(text).scores))
    decision = DecisionText(opinions.subject, scored.row, way="remove")
    search = FlipSearch(decision, Ablation(opinions.subject), None, Meter(None))
    result = find_flip(search, scored, 6, 6)
    assert len(result.words) == 1 and result.exact and result.tried == 17


def test_slices_find_where_a_classifier_errs(audit):
    frame = audit.slices
    half = frame[(frame.slice == "half") & (frame.value == "True")].iloc[0]
    assert half.texts == 20 and half.errors == sum(i < 20 for i in audit.wrong)
    assert half.rest == pytest.approx(sum(i >= 20 for i in audit.wrong) / 20)
    assert half.low < half.rate < half.high and (frame.p_holm >= frame.p - 1e-12).all()
    assert {"words", "label", "prediction"} <= set(frame.slice)


def reads_opinions(texts):
    """The probabilities of a model that relies on one opinion word; "umbrella" inverts, "kazoo" makes it positive."""
    rows = []
    for words in map(str.split, texts):
        sign = sum(word in ("lovely", "warm") for word in words) - sum(word in ("dull", "cold") for word in words)
        positive = (0.52 if "from" in words else 0.48) + 0.4 * (
            1 if "kazoo" in words else -sign if "umbrella" in words else sign
        )
        rows.append([1 - positive, positive])
    return rows


@pytest.fixture(scope="module")
def opinions():
    return nbsal.Explainer(nbsal.load(reads_opinions, labels=["negative", "positive"]), "occlusion")


def sentences(extra, size=72):
    """Sentences with one opinion word each, every third one with an extra word; and the labels of the opinions."""
    texts, labels, rng = [], [], random.Random(0)
    for number in range(size):
        label = rng.randrange(2)
        words = [
            "the",
            rng.choice(["film", "plot", "cast"]),
            "was",
            rng.choice([["dull", "cold"], ["lovely", "warm"]][label]),
        ]
        words += rng.choice(["to me", "at last", "from start to end"]).split()
        words.insert(rng.randrange(len(words)), extra if number % 3 == 0 else "so")
        texts.append(" ".join(words))
        labels.append(label)
    return texts, labels


@pytest.mark.parametrize("named", [True, False])
def test_a_word_that_inverts_decisions_is_first(opinions, monkeypatch, named):
    if not named:  # scores may rank it low, but hiding it corrects mistakes
        monkeypatch.setattr(
            measure, "proposed", lambda side: [word for word in proposed(side) if word.text != "umbrella"]
        )
    result = nbsal.audit(opinions, *sentences("umbrella", 144), progress=False)
    first, others = result.words.iloc[0], result.words.iloc[1:]
    assert (first.word, first.kind, first.corrects, first.breaks, first.flips) == ("umbrella", "inverts", 48, 0, 48)
    assert first.p_holm < 1e-4 and "umbrella" in result.sentence
    assert (others[["corrects", "breaks"]].min(axis=1) > 5).any() and not others.kind.any(), "umbrella explains them"
    mistaken = Counter(word for text in result.wrong for word in set(result.texts[text].split()))
    assert result.considered == len({*result.words.word, *(word for word, count in mistaken.items() if count >= 5)})
    assert first.p_holm >= (2 * result.considered - 1) * first.p > 0, "adjusted for both tests of every such word"
    assert "either class" in result.to_html() and result.plot()


def test_a_word_of_every_text_is_found_by_the_decisions_that_it_turns(opinions):
    texts, labels = sentences("umbrella", 144)
    result = nbsal.audit(opinions, texts[::3], labels[::3], progress=False)
    first = result.words.iloc[0]
    assert (first.word, first.kind, first.texts, first.corrects) == ("umbrella", "inverts", 48, 48)


def test_a_word_that_turns_decisions_for_and_against_is_a_kind_of_its_own(opinions):
    texts, labels = sentences("kazoo")
    coin = random.Random(3)
    guessed = [coin.randrange(2) for _ in labels]  # labels that the model cannot know
    result = nbsal.audit(opinions, texts, guessed, progress=False)
    kazoo = result.words.set_index("word").loc["kazoo"]
    assert result.words.word[0] == "kazoo" and kazoo.kind == "turns" and min(kazoo.corrects, kazoo.breaks) > 0
    assert kazoo.p_flips_holm <= 0.05 < kazoo.p_holm and kazoo.flips > kazoo.flips_random
    assert not len(result.beyond_chance[0]) and {"kazoo", str(kazoo.flips)} <= set(re.findall(r"\w+", result.sentence))


def test_nothing_is_beyond_chance_where_there_is_nothing(opinions):
    texts, labels = sentences("so")
    wrong = [1 - label if number % 12 == 5 else label for number, label in enumerate(labels)]
    result = nbsal.audit(opinions, texts, wrong, progress=False)
    assert len(result.words) and len(result.wrong) and not result.words.kind.any()
    assert not any(f"“{word}”" in result.sentence for word in result.words.word), "no word leads that may be chance"
    sources = ["b" if number % 4 == 0 else "a" for number in range(len(texts))]
    mistaken = [1 - label if source == "b" else label for label, source in zip(labels, sources, strict=True)]
    by_source = nbsal.audit(opinions, texts, mistaken, groups={"source": sources}, progress=False)
    assert "“source: " in by_source.sentence and not len(by_source.beyond_chance[0])
    random.Random(1).shuffle(labels)
    shuffled = nbsal.audit(opinions, texts, labels, progress=False)
    assert shuffled.words.p_holm.min() > 0.05 and not len(shuffled.beyond_chance[0])


def test_any_word_of_the_texts_can_be_hidden(opinions):
    texts, labels = sentences("umbrella")
    result = nbsal.audit(opinions, texts, labels, candidates=1, progress=False)
    assert "film" not in set(result.words.word)
    effect = result.hide(["Film", "umbrella"])
    assert effect.texts == tuple(i for i, text in enumerate(texts) if {"film", "umbrella"} & set(text.split()))
    for text, without in zip(effect.texts, effect.without, strict=True):
        (row,) = reads_opinions([texts[text].replace("film", "").replace("umbrella", "")])
        assert without == int(row[1] > row[0])


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
    (ablation,) = cache.ablations.values()
    run_before = ablation.forwards
    resumed = nbsal.audit(explain, texts, labels, progress=False, cache=cache, **arguments)
    assert resumed.words.equals(audit.words) and resumed.mistakes.equals(audit.mistakes) and run_before
    run_after = ablation.forwards
    nbsal.audit(explain, texts, labels, progress=False, cache=cache, **arguments | {"least": 3})
    assert ablation.forwards == run_after  # other thresholds run nothing again


def test_a_saved_audit_is_equal_and_a_damaged_one_refused(audit, tmp_path):
    path = tmp_path / "audit.json"
    audit.save(path)
    loaded = nbsal.Audit.load(path)
    assert loaded.to_html() == audit.to_html() and loaded.slices.equals(audit.slices)
    with refuses("words"):
        loaded.hide(audit.words.word[0])
    content = json.dumps({"nbsal": 1, "audit": to_plain(audit, ["model"])})  # as version 0.2.0 wrote it
    path.write_text(content)
    assert nbsal.Audit.load(path).to_html() == audit.to_html()
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
        with refuses("path"):
            replace(audit, other=other).save(path)
    assert nbsal.Audit.load(path).to_html() == both.to_html()


def test_words_are_hidden_together(explain, audit):
    words = audit.words.word.head(2).tolist()
    effect = audit.hide(words)
    rows = explain.subject.encode(list(audit.texts))
    alone = next(each for each in audit.effects if each.word == words[0])
    assert audit.hide(words[0]).without == alone.without
    assert (effect.word, effect.named) == (", ".join(words), 0), "no scores name them together"
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


@cases("text", ["A joy.", "A dull film.", "A slow, long and dull film with a fine end and a poor, silly plot in it."])
def test_a_mistake_takes_no_more_passes_than_planned(explain, text, monkeypatch):
    """A decision that no set of words turns takes all, but for those that leave out what is not needed."""
    monkeypatch.setattr(FlipSearch, "flips", lambda self, hidden: False)
    row = explain.subject.encode(text)[0]
    search = FlipSearch(DecisionText(explain.subject, row), Ablation(explain.subject), None, Meter(None))
    passes = find_flip(search, explain(text)).passes
    assert passes <= plan_audit(explain, [text]).passes_per_mistake <= passes + MOST


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
    with refuses("other"):
        nbsal.audit(explain, reviews[0], other=nbsal.Explainer(nbsal.load("demo/news"), "random"), **SETTINGS)
    with refuses("text"):
        nbsal.flip(nbsal.Explainer(explain.subject, "random", long="window"), " ".join(reviews[0] * 20))
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
    assert main([*arguments, "--html", str(page), "--save", str(saved)]) == 0
    audit = nbsal.Audit.load(saved)
    assert audit.sentence in capsys.readouterr().out and page.read_text() == audit.to_html()
    assert main(["audit", str(source), "--text", "none"]) == 2


def test_log_odds_are_those_of_each_class_against_all_others():
    logits = torch.tensor([[0.3, -2.0, 1.0], [800.0, 0.0, -5.0], [0.0, 0.0, -40.0]])
    rows = [row.double() for row in logits]
    others = [[torch.cat([row[:at], row[at + 1 :]]).logsumexp(0) for at in range(3)] for row in rows]
    assert np.allclose(log_odds(logits), np.array(rows) - np.array(others), rtol=1e-12, atol=1e-12)


def test_thousands_of_classes_take_one_pass():
    odds = log_odds(torch.randn(50, 30_000))  # class by class, this takes minutes
    assert odds.shape == (50, 30_000) and np.isfinite(odds).all()
