"""An answer: reading it at every level, its sources, saving, and what is refused."""

import json
import threading

import numpy as np
import pytest

import nbsal
from nbsal.answers.answer import SUMMED
from nbsal.errors import Cancelled, InputError, ModelError, NbsalError, UnknownName
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
    return nbsal.answer(subject, MESSAGES, documents=DOCUMENTS, max_new_tokens=12, progress=False)


def test_the_reply_is_what_the_model_writes(subject, result):
    assert result.provenance["reply"] == "generated" and result.provenance["documents"] == "before the question"
    assert len(result.ids) == 12 and (result.statistics.rank == 1).all()
    frame = result.tokens()
    assert frame["probability"].to_numpy() == pytest.approx(frame["drawn"].to_numpy(dtype=float), abs=1e-6)
    assert [len(rivals) for rivals in frame["rivals"]] == [5] * 12
    forced = nbsal.answer(subject, MESSAGES, reply=result.ids, documents=DOCUMENTS, progress=False)
    assert np.array_equal(forced.scores, result.scores) and forced.provenance["reply"] == "given as ids"
    assert forced.tokens().drop(columns="drawn").equals(frame.drop(columns="drawn"))


@pytest.mark.parametrize("columns", LEVELS)
@pytest.mark.parametrize("rows", ["token", "word", "sentence", "reply"])
def test_parts_sum_to_tokens(result, rows, columns):
    frame = result.matrix(rows, columns)
    parts = [token for part in result.reading.reply_units(rows) for token in part.tokens]
    assert sorted(parts) == [
        i for i in range(len(result.ids)) if rows == "token" or not result.reading.reply_special[i]
    ]
    assert frame.to_numpy().sum() == pytest.approx(result.scores[parts].sum())
    assert frame["reply so far"].sum() == pytest.approx(result.scores[parts][:, result.reading.start :].sum())
    assert "reply so far" not in result.matrix(rows, columns, earlier=False)
    held = [token for unit in result.reading.units(columns) for token in unit.tokens]
    assert sorted(held) == [i for i, owner in enumerate(result.reading.prompt.owners) if owner >= 0]


def test_sentences_are_those_of_the_sources(result):
    texts = [unit.text.strip() for unit in result.reading.units("sentence")]
    assert "Who wrote Dr. Brown's book?" in texts and "Ben read it." in texts and "The plot is a bore." in texts
    assert [unit.name for unit in result.reading.units("document")][-2:] == ["document 1, Notes", "document 2, Prices"]


def test_sources_have_shares(result):
    frame = result.sources(k=3, rows="reply")
    assert len(frame) == 3 and frame["share"].is_monotonic_decreasing and 0 < frame["share"].sum() <= 1 + 1e-9
    units = {unit.text for unit in result.units}
    assert set(frame["text"]) <= units
    with refuses("k"):
        result.sources(0)


def test_a_picture_says_where_it_adds_up_what_is_no_sum(subject):
    question = [{"role": "user", "content": "Who ran?"}]
    answers = nbsal.answer(subject, question, reply=" The cat.", method=["gradxact", "gae"], progress=False)
    assert {name: SUMMED in answer.picture().notes for name, answer in answers.items()} == {
        name: not answer.linear for name, answer in answers.items()
    }
    assert {answer.linear for answer in answers.values()} == {True, False}


def test_spans_of_the_user_are_units(subject):
    text = "The film is a joy. The plot is a bore."
    result = nbsal.answer(subject, text, " A joy.", unit=[(0, 18), (19, 38)], method="occlusion", progress=False)
    assert [unit.text for unit in result.units] == [text[:18], text[19:]]
    for spans in ([(0, 10), (5, 12)], [(0, 400)], [(3, 3)], [], "lines", 7):
        with pytest.raises(InputError) as caught:
            nbsal.answer(subject, text, " A joy.", unit=spans, progress=False)
        assert caught.value.argument == "unit"


def test_parts_of_the_reply_are_named_in_four_ways(subject):
    result = nbsal.answer(subject, MESSAGES, "Ann wrote it. Ann read it.", progress=False)
    whole = result.of(slice(None))
    assert whole.text == (result.reading.prompt.text, result.text[: len(whole.text[1])])
    assert np.array_equal(result.of(-1).scores, result.of(len(result.ids) - 1).scores)
    start = result.text.index("wrote")
    assert np.array_equal(result.of("wrote").scores, result.of((start, start + 5)).scores)
    assert whole.to_html() and whole.top(2) is not None and len(whole.by_word())
    for span in ("Ann", "Vienna", 400, (90, 95), 1.5, slice(5, 5)):
        with refuses("span"):
            result.of(span)
    for arguments in ((result.ids[0], 0), ("not one token at all", 0)):
        with pytest.raises(InputError):
            result.rather(*arguments)


def longest(value):
    """The most entries of any list in a file; logits would have as many as the vocabulary."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max([len(value) if isinstance(value, list) else 0, *map(longest, parts)])


def test_saving_keeps_everything_but_the_model(result, tmp_path):
    result.save(tmp_path / "answer.json")
    loaded = nbsal.Answer.load(tmp_path / "answer.json")
    assert np.array_equal(loaded.scores, result.scores) and loaded.reading == result.reading
    assert loaded.tokens().equals(result.tokens()) and loaded.provenance == result.provenance
    assert loaded.matrix("sentence", "document").equals(result.matrix("sentence", "document"))
    assert loaded.to_html() == result.to_html()
    content = json.loads((tmp_path / "answer.json").read_text())
    assert "logits" not in str(content) and "weights" not in str(content) and longest(content) < 400
    with refuses("span"):
        loaded.of(slice(0, 3))
    (tmp_path / "answer.json").write_text("{}")
    with pytest.raises(NbsalError):
        nbsal.Answer.load(tmp_path / "answer.json")


def test_hostile_words_are_text(subject):
    script = "<script>alert(1)</script>"
    result = nbsal.answer(
        subject, [{"role": "user", "content": script}], f"{script}<img src=x onerror=y>", documents={script: script},
        progress=False,
    )  # fmt: skip
    page = result.to_html() + result.of(0).to_html()
    assert "<script" not in page and "<img" not in page


def test_several_methods_share_one_reply(subject):
    results = nbsal.answer(
        subject, MESSAGES, method=["gae", "rollout"], seed=3, do_sample=True, max_new_tokens=6, progress=False
    )
    assert list(results) == ["gae", "rollout"]
    assert results["gae"].ids == results["rollout"].ids


def test_a_seed_repeats_the_reply_and_leaves_the_generator_alone(subject):
    import torch

    state = torch.get_rng_state()
    settings = {"do_sample": True, "temperature": 1.5, "max_new_tokens": 10, "seed": 5, "progress": False}
    first, second = (nbsal.answer(subject, MESSAGES, **settings) for _ in range(2))
    assert first.ids == second.ids and torch.equal(torch.get_rng_state(), state)
    assert nbsal.answer(subject, MESSAGES, **settings | {"seed": 6}).ids != first.ids


def test_settings_of_generation_show_in_ranks(subject):
    result = nbsal.answer(subject, MESSAGES, max_new_tokens=14, repetition_penalty=1.9, progress=False)
    assert (result.statistics.rank > 1).any()
    assert not np.allclose(result.tokens()["drawn"].to_numpy(dtype=float), result.tokens()["probability"])


def test_text_is_passed_on_while_it_is_written(subject):
    pieces = []
    result = nbsal.answer(subject, MESSAGES, max_new_tokens=8, on_token=pieces.append, progress=False)
    assert len(pieces) > 2 and result.text.startswith("".join(pieces))


@cases("method", ["gae", "attcat", "occlusion"])
def test_it_can_be_cancelled(subject, method):
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        nbsal.answer(subject, MESSAGES, " A joy.", method=method, cancel=cancel, progress=False)
    with pytest.raises(Cancelled):
        nbsal.answer(subject, MESSAGES, cancel=cancel, progress=False)


def test_a_reply_that_merges_with_the_prompt_is_told(subject):
    apart = nbsal.answer(subject, "The fi", "lm is a joy.", progress=False).provenance["reply"]
    joined = nbsal.answer(subject, "The film is", " a joy.", progress=False).provenance["reply"]
    assert apart != joined and "border" in apart


REFUSED = [
    ({"asked": ""}, "asked"),
    ({"asked": []}, "asked"),
    ({"asked": [{"role": "user"}]}, "asked"),
    ({"asked": ["hello"]}, "asked"),
    ({"asked": 3}, "asked"),
    ({"asked": [{"role": "user", "content": None}]}, "asked"),
    ({"asked": [*MESSAGES, {"role": "assistant", "content": "Ann."}]}, "asked"),
    ({"asked": "{documents} and {documents}", "documents": ["x"]}, "asked"),
    ({"documents": "one text"}, "documents"),
    ({"documents": [""]}, "documents"),
    ({"documents": [{"title": "x"}]}, "documents"),
    ({"reply": ""}, "reply"),
    ({"reply": []}, "reply"),
    ({"reply": [10**6]}, "reply"),
    ({"reply": [2]}, "reply"),
    ({"reply": 1.5}, "reply"),
    ({"reply": " a" * 600}, "asked"),
    ({"max_new_tokens": 600}, "max_new_tokens"),
    ({"num_return_sequences": 2, "do_sample": True}, "num_return_sequences"),
    ({"tempertaure": 1}, "generate"),
    ({"unit": "lines"}, "unit"),
    ({"number": "odds"}, "number"),
    ({"seed": -1}, "seed"),
]


@cases("settings, argument", REFUSED)
def test_what_cannot_be_is_refused(subject, settings, argument):
    settings = {"asked": MESSAGES, "reply": " Ann.", "progress": False} | settings
    if argument in ("max_new_tokens", "num_return_sequences", "generate", "seed"):
        settings["reply"] = None
    with pytest.raises(InputError) as caught:
        nbsal.answer(subject, **settings)
    assert caught.value.argument == argument


def test_a_template_that_raises_or_is_missing_is_named(subject):
    strict = "{{ raise_exception('No system role') }}"
    with refuses("asked"):
        nbsal.answer(subject, MESSAGES, " Ann.", template=strict, progress=False)
    with refuses("template"):
        nbsal.answer(writers.load(template=None), MESSAGES, " Ann.", progress=False)
    assert "note" in nbsal.answer(subject, "A prompt.", " Ann.", progress=False).provenance


def test_documents_that_the_template_leaves_out_are_refused(subject):
    template = "{% if documents and false %}{{ documents[0].text }}{% endif %}" + writers.CHATML
    with refuses("documents"):
        nbsal.answer(subject, MESSAGES, " Ann.", documents=DOCUMENTS, template=template, progress=False)
    placed = [*MESSAGES[:1], {"role": "user", "content": "{documents} Who?"}]
    nbsal.answer(subject, placed, " Ann.", documents=DOCUMENTS, template=template, progress=False)


@cases("method", ["gae", "occlusion", "random"])
def test_a_model_without_numbers_is_named(method):
    import torch

    broken = writers.load()
    with torch.no_grad():
        broken.model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(ModelError) as caught:
        nbsal.answer(broken, MESSAGES, " Ann.", method=method, progress=False)
    assert caught.value.part == "logits"


def test_models_that_write_nothing_are_named(load, reviews):
    for other in (reviews, load("bert", "span"), load("bert", "masked")):
        with pytest.raises(ModelError) as caught:
            nbsal.answer(other, "A joy.", " A bore.")
        assert caught.value.part == "task"
    with refuses("method", UnknownName):
        nbsal.answer(writers.load(), "A joy.", " A bore.", method="gradcan")
