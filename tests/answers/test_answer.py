"""An answer: reading it at every level, its sources, saving, and what writes it."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

import nbsal
from nbsal.support.errors import ModelError, UnknownName
from tests import forging
from tests.answers import writers
from tests.cases import cases
from tests.raising import refuses

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "The film is a joy. The plot is a bore.\n\nWho wrote Dr. Brown's book?"},
]
DOCUMENTS = {"Notes": "Ann wrote the book. Ben read it.", "Prices": "Prices fell on Monday."}
LEVELS = ("token", "word", "sentence", "paragraph", "document", "message")


@pytest.fixture(scope="module")
def subject():
    return writers.load()


@pytest.fixture(scope="module")
def result(subject):
    return nbsal.answer(subject, MESSAGES, documents=DOCUMENTS, method="gae", max_new_tokens=12, progress=False)


def answer(subject, reply=" Ann.", **settings):
    return nbsal.answer(subject, MESSAGES, reply, progress=False, **settings)


def test_the_reply_is_what_the_model_writes(subject, result):
    assert result.provenance["reply"] == "generated" and result.provenance["documents"] == "before the question"
    assert len(result.ids) == 12 and (result.statistics.rank == 1).all()
    frame = result.tokens()
    assert frame["probability"].to_numpy() == pytest.approx(frame["drawn"].to_numpy(dtype=float), abs=1e-6)
    assert [len(rivals) for rivals in frame["rivals"]] == [5] * 12
    forced = answer(subject, result.ids, documents=DOCUMENTS, method="gae")
    assert np.allclose(forced.scores, result.scores, rtol=1e-9) and forced.provenance["reply"] == "given as ids"
    assert forced.tokens()["drawn"].isna().all()


@cases("rows, columns", [(rows, columns) for rows in ("token", "word", "sentence", "reply") for columns in LEVELS])
def test_parts_sum_to_tokens(result, rows, columns):
    frame, reading = result.matrix(rows, columns), result.reading
    parts = [token for part in reading.reply_units(rows) for token in part.tokens]
    assert sorted(parts) == [i for i in range(len(result.ids)) if rows == "token" or not reading.reply_special[i]]
    assert frame.to_numpy().sum() == pytest.approx(result.scores[parts].sum())
    assert frame["reply so far"].sum() == pytest.approx(result.scores[parts][:, reading.start :].sum())
    assert "reply so far" not in result.matrix(rows, columns, earlier=False)
    held = [token for unit in reading.units(columns) for token in unit.tokens]
    assert sorted(held) == [i for i, owner in enumerate(reading.prompt.owners) if owner >= 0]


def test_sources_are_sentences_and_documents_and_have_shares(result):
    texts = [unit.text.strip() for unit in result.reading.units("sentence")]
    assert {"Who wrote Dr. Brown's book?", "Ben read it.", "The plot is a bore."} < set(texts)
    assert [unit.name for unit in result.reading.units("document")][-2:] == ["document 1, Notes", "document 2, Prices"]
    frame = result.sources(k=3, rows="reply")
    assert len(frame) == 3 and frame["share"].is_monotonic_decreasing and 0 < frame["share"].sum() <= 1 + 1e-9
    assert set(frame["text"]) <= {unit.text for unit in result.units}


def test_parts_of_the_reply_are_named_in_four_ways(subject):
    result = answer(subject, "Ann wrote it. Ann read it.")
    whole = result.of(slice(None))
    assert whole.text == (result.reading.prompt.readable[0], result.text[: len(whole.text[1])])
    assert np.array_equal(result.of(-1).scores, result.of(len(result.ids) - 1).scores)
    start = result.text.index("wrote")
    assert np.array_equal(result.of("wrote").scores, result.of((start, start + 5)).scores)
    assert whole.to_html() and whole.top(2) is not None and len(whole.by_word())


def test_special_tokens_are_explained_but_are_not_in_what_people_read(subject):
    asked = [{"role": "user", "content": "Who wrote it? They <s> typed this."}]
    result = nbsal.answer(subject, asked, "<s>Ann wrote it.<|im_end|></s>", method="gradxact", progress=False)
    frame = result.tokens()
    assert result.text == "Ann wrote it." and frame.token[frame.special].tolist() == ["<s>", "<|im_end|>", "</s>"]
    pieces = [result.text[start:end] for start, end in zip(frame.start, frame.end, strict=True)]
    assert "".join(pieces) == result.text and [not piece for piece in pieces] == frame.special.tolist()
    assert result.of(-1).target == "</s>" and result.of(-1).scores.any() and result.facts.part([0]).part == "<s>"
    last = result.of(result.reading.content[-1])
    assert last.text[0] == "user\nWho wrote it? They <s> typed this.\nassistant\n"
    assert last.text[0][slice(*last.offsets[last.tokens.index("Who")])] == "Who"
    view = nbsal.widgets.Answers(result).wait()
    read = [repr(result), repr(view), *result.sources(9)["text"], last.to_html(), result.to_html(), view.to_html()]
    assert not [text for text in read if any(name in text for name in ("|im_", "</s>", "&lt;/s&gt;"))]


def test_saving_keeps_everything_but_the_model(result, tmp_path):
    result.save(tmp_path / "answer.json")
    loaded = nbsal.Answer.load(tmp_path / "answer.json")
    assert np.array_equal(loaded.scores, result.scores) and loaded.reading == result.reading
    assert loaded.tokens().equals(result.tokens()) and loaded.provenance == result.provenance
    assert loaded.matrix("sentence", "document").equals(result.matrix("sentence", "document"))
    assert loaded.to_html() == result.to_html()
    metadata, _, arrays = forging.opened(tmp_path / "answer.json")
    assert "weights" not in str(metadata) and max(array.size for array in arrays.values()) <= result.scores.size
    with refuses("span"):
        loaded.of(slice(0, 3))
    wrong = {"places": ((99, None),), "documents": (99,), "instead": (("a",),)}
    wrong |= {
        "logprob": np.zeros(1),
        "without": np.zeros((1, 1)),
        "nothing": np.full_like(loaded.evidence.nothing, np.nan),
    }
    for name, value in wrong.items():
        with refuses("path"):
            replace(loaded, evidence=replace(loaded.evidence, **{name: value})).save(tmp_path / "answer.json")
    replace(loaded, evidence=None).save(tmp_path / "answer.json")
    assert nbsal.Answer.load(tmp_path / "answer.json").evidence is None


def test_hostile_words_are_text(subject):
    script = "<script>alert(1)</script>"
    chat, reply = [{"role": "user", "content": script}], f"{script}<img src=x onerror=y>"
    result = nbsal.answer(subject, chat, reply, documents={script: script}, progress=False)
    page = result.to_html() + result.of(0).to_html()
    assert "<script" not in page and "<img" not in page


def test_a_seed_repeats_the_reply_of_all_methods_and_another_changes_it(subject):
    settings = {"do_sample": True, "temperature": 1.5, "max_new_tokens": 10, "method": ["gae", "rollout"]}
    first, second, third = (answer(subject, None, seed=seed, **settings) for seed in (5, 5, 6))
    assert list(first) == ["gae", "rollout"] and first["gae"].ids == first["rollout"].ids == second["gae"].ids
    assert third["gae"].ids != first["gae"].ids


def test_settings_of_generation_show_in_ranks_and_text_is_passed_on(subject):
    pieces = []
    settings = {"max_new_tokens": 14, "repetition_penalty": 1.9, "on_token": pieces.append}
    result = answer(subject, None, **settings)
    assert (result.statistics.rank > 1).any()
    assert not np.allclose(result.tokens()["drawn"].to_numpy(dtype=float), result.tokens()["probability"])
    assert len(pieces) > 2 and result.text.startswith("".join(pieces))


@cases("method", ["gae", "occlusion", "random"])
def test_a_model_without_numbers_is_named(method):
    broken = writers.load()
    with torch.no_grad():
        broken.model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(ModelError) as caught:
        answer(broken, method=method)
    assert caught.value.part == "logits"


def test_unknown_methods_and_prompts_without_a_template(subject):
    with refuses("method", UnknownName):
        answer(subject, method="gradcan")
    apart = nbsal.answer(subject, "The fi", "lm is a joy.", progress=False).provenance["reply"]
    joined = nbsal.answer(subject, "The film is", " a joy.", progress=False).provenance["reply"]
    assert apart != joined, "a border between tokens that the text alone would not have is told"


def test_a_text_that_skips_the_chat_template_is_warned_of_once():
    """At the caller's line, and neither for messages nor for a text that the caller has rendered."""
    subject, messages = writers.load(), [{"role": "user", "content": "A prompt."}]
    rendered = subject.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for asked in (messages, rendered, f"{rendered}Well,"):
            assert "note" not in nbsal.answer(subject, asked, " Ann.", progress=False).provenance
    with pytest.warns(UserWarning, match="chat") as caught:
        notes = [nbsal.answer(subject, "A prompt.", " Ann.", progress=False).provenance["note"] for _ in range(2)]
    assert len(caught) == 1 and caught[0].filename == __file__ and notes[0] == notes[1]
