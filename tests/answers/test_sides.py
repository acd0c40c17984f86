"""Replies of encoder-decoders: read, hidden, saved and refused as the models ask for."""

import itertools
import json
import warnings

import numpy as np
import pytest
import torch
import transformers

import nbsal
from nbsal.answers.hiding import Hiding
from nbsal.errors import InputError, ModelError, NbsalError
from nbsal.model import sides
from tests import zoo
from tests.answers import writers
from tests.answers.writers import REPLY, SOURCE, answer, values_of
from tests.cases import cases
from tests.raising import refuses

NAMES = ("t5", "bart", "marian")


@pytest.fixture(scope="module")
def subjects():
    return {name: writers.load_sides(name) for name in writers.ENCODER_DECODERS}


@pytest.mark.parametrize("name", writers.ENCODER_DECODERS)
def test_both_sides_are_read_as_the_model_reads_them(subjects, name):
    subject = subjects[name]
    model, config = subject.model, subject.model.generation_config
    result = answer(subject, "random")[1]
    prompt = result.reading.prompt
    assert list(prompt.ids[: prompt.source_size]) == subject.tokenizer(SOURCE)["input_ids"]
    begins = [config.decoder_start_token_id, config.forced_bos_token_id]
    assert list(prompt.ids[prompt.source_size :]) == [index for index in begins if index is not None]
    assert {prompt.owners[i] for i in range(prompt.source_size, len(prompt.ids))} == {-1}, "of the template"
    assert list(result.ids) == subject.tokenizer(REPLY, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        values, _ = values_of(model, torch.tensor([result.reading.row.ids]), result.reading)
    assert result.statistics.logprob == pytest.approx(values.numpy(), abs=1e-12)
    assert subject.task == "reply" and subject.depth == 3 and sides.depth(model, sides.REPLY) == 2


@pytest.mark.parametrize("name", NAMES)
def test_a_reply_that_is_written_equals_the_same_reply_passed(subjects, name):
    subject = subjects[name]
    settings = {"do_sample": True, "temperature": 1.5, "top_k": 0, "seed": 1, "max_new_tokens": 9}
    written = answer(subject, "gradxact", reply=None, **settings)[1]
    assert written.provenance["reply"] == "generated" and len(written.ids) > 3
    passed = answer(subject, "gradxact", written.ids)[1]
    assert np.array_equal(written.scores, passed.scores)
    assert written.tokens().drop(columns="drawn").equals(passed.tokens().drop(columns="drawn"))
    assert written.tokens()["drawn"].notna().all()
    start = list(written.reading.prompt.ids[written.reading.prompt.source_size :])
    ids = torch.tensor([written.reading.prompt.ids[: written.reading.prompt.source_size]])
    torch.manual_seed(1)
    output = subject.model.generate(
        ids,
        do_sample=True,
        temperature=1.5,
        top_k=0,
        max_new_tokens=9,
        output_logits=True,
        return_dict_in_generate=True,
    )
    assert output.sequences[0].tolist() == [*start, *written.ids]
    raw = torch.stack(output.logits)[-len(written.ids) :, 0].log_softmax(-1)
    chosen = raw.gather(1, torch.tensor(written.ids)[:, None])[:, 0]
    assert written.statistics.logprob == pytest.approx(chosen.numpy(), abs=1e-5)
    for whole in (output.sequences[0], output.sequences[0, 1:] if len(start) > 1 else output.sequences[0]):
        assert answer(subject, "random", whole)[1].ids == written.ids, "what generate returns is a reply as it is"


def test_text_is_passed_on_without_the_language(subjects):
    pieces = []
    settings = {"do_sample": True, "temperature": 1.5, "seed": 2, "max_new_tokens": 8}
    result = answer(subjects["mbart"], "random", reply=None, on_token=pieces.append, **settings)[1]
    assert len(pieces) > 2 and result.text.startswith("".join(pieces))


def test_a_language_is_forced_by_a_setting(subjects):
    result = answer(subjects["marian"], "gae", forced_bos_token_id=4)[1]
    prompt = result.reading.prompt
    assert prompt.tokens[prompt.source_size :] == ("<pad>", "<|im_end|>")
    assert result.provenance["reply begins with"] == ["<pad>", "<|im_end|>"]
    frame = result.matrix()
    assert "template" in frame and len(frame) == len(result.ids)
    assert result.scores.shape == (len(result.ids), prompt.source_size + 2 + len(result.ids))
    with refuses("decoder_start_token_id"):
        answer(subjects["marian"], "gae", forced_bos_token_id=4000)


@cases("name", NAMES)
def test_hidden_units_are_masked_in_the_encoder(subjects, name):
    subject = subjects[name]
    result = answer(subject, "random")[1]
    reading, units = result.reading, result.reading.units("sentence")
    hiding = Hiding(subject, reading, units)
    subsets = np.array(list(itertools.product([True, False], repeat=len(units))))
    ids, size = torch.tensor([reading.row.ids]), reading.prompt.source_size
    for subset, values in zip(subsets, hiding.values(subsets), strict=True):
        mask = torch.ones(1, size)
        for unit, stays in zip(units, subset, strict=True):
            mask[0, list(unit.tokens)] = float(stays)
        with torch.no_grad():
            expected, _ = values_of(subject.model, ids, reading, attention_mask=mask)
        assert values == pytest.approx(expected.numpy(), abs=1e-7)
    assert hiding.way == "masked in place" and hiding.forwards == len(subsets)
    assert hiding.values(subsets).shape == (8, len(result.ids)) and hiding.forwards == len(subsets)


@cases("way", ["text", "pad", 7])
def test_other_ways_to_hide_change_the_source_alone(subjects, way):
    """Written anew without a unit, or with another token in its place."""
    subject = subjects["bart"]
    result = answer(subject, "random")[1]
    reading, units, size = result.reading, result.reading.units("sentence"), result.reading.prompt.source_size
    values = Hiding(subject, reading, units, way).values(~np.eye(len(units), dtype=bool))
    for unit, row in zip(units, values, strict=True):
        source = list(reading.row.ids[:size])
        for token in unit.tokens:
            source[token] = 0 if way == "pad" else way
        if way == "text":
            start, end = unit.span
            source = subject.tokenizer((SOURCE[:start] + SOURCE[end:]).strip())["input_ids"]
        begins = torch.tensor([reading.row.ids[size:-1]])
        with torch.no_grad():
            logits = subject.model(torch.tensor([source]), decoder_input_ids=begins).logits[0, reading.position(0) :]
        expected = logits.log_softmax(-1).gather(1, torch.tensor(result.ids)[:, None])[:, 0]
        assert row == pytest.approx(expected.numpy(), abs=1e-9)


def test_a_source_without_end_keeps_one_token(subjects):
    subject = nbsal.load(subjects["t5"].model, tokenizer=writers.tokenizer(None))
    reading = answer(subject, "random")[1].reading
    values = Hiding(subject, reading, reading.units("sentence")).values([[False] * 3])
    mask = torch.zeros(1, reading.prompt.source_size)
    mask[0, 0] = 1
    with torch.no_grad():
        expected, _ = values_of(subject.model, torch.tensor([reading.row.ids]), reading, attention_mask=mask)
    assert values[0] == pytest.approx(expected.numpy(), abs=1e-7)


@cases("name", writers.ENCODER_DECODERS)
def test_the_last_layer_of_the_decoder_says_what_the_model_says(subjects, name):
    result = answer(subjects[name], "random")[1]
    frame = result.lens(k=3)
    assert set(frame["layer"]) == {0, 1, 2}
    last = frame[frame["layer"] == 2]
    assert last["logprob"].to_numpy() == pytest.approx(result.statistics.logprob, abs=1e-6)
    assert last["rank"].tolist() == result.statistics.rank.tolist()
    with refuses("layers", nbsal.errors.UnknownName):
        result.lens([3])


def test_documents_stand_before_the_source(subjects):
    documents = {"Notes": "Ann wrote the book.", "Prices": "Prices fell on Monday."}
    explain = nbsal.Explainer(subjects["t5"], "occlusion")
    result = explain.reply(SOURCE, REPLY, documents=documents, unit="document", progress=False)
    assert [unit.name for unit in result.units] == ["prompt", "document 1, Notes", "document 2, Prices"]
    assert result.provenance["documents"] == "before the question"
    placed = explain.reply("Read {documents} now.", REPLY, documents=documents, unit="document", progress=False)
    assert placed.provenance["documents"] == "at the placeholder"
    for level in ("token", "word", "sentence", "document"):
        held = [token for unit in result.reading.units(level) for token in unit.tokens]
        assert sorted(held) == [i for i, owner in enumerate(result.reading.prompt.owners) if owner >= 0]
        frame = result.matrix("reply", level)
        assert frame.to_numpy().sum() == pytest.approx(result.scores.sum())


def test_an_answer_is_judged_saved_and_shown(subjects, tmp_path):
    result = answer(subjects["bart"], "shapley")[1]
    judged = result.judge(random=6, subsets=10)
    assert judged.drop >= judged.random_drops.mean() and judged.rank_correlation > 0.5
    assert len(result.sources(2, "reply")) == 2 and "Saliency" in repr(result.of(0))
    result.save(tmp_path / "answer.json")
    loaded = nbsal.Answer.load(tmp_path / "answer.json")
    assert np.array_equal(loaded.scores, result.scores) and loaded.reading == result.reading
    assert loaded.matrix("token", "word").equals(result.matrix("token", "word"))
    assert loaded.to_html() == result.to_html()


@pytest.fixture(scope="module")
def marian_tokenizer(tmp_path_factory):
    """A tokenizer of Marian, which gives no offsets, with a vocabulary of its own for each side."""
    sentencepiece = pytest.importorskip("sentencepiece")
    folder, vocabulary = tmp_path_factory.mktemp("marian"), ["</s>", "<unk>", ">>fra<<"]
    for side, corpus in (("source", zoo.CORPUS), ("target", [text.upper() for text in zoo.CORPUS])):
        options = {"vocab_size": 90, "hard_vocab_limit": False, "minloglevel": 2}
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(corpus), model_prefix=str(folder / side), **options
        )
        pieces = sentencepiece.SentencePieceProcessor(str(folder / f"{side}.model"))
        vocabulary += [pieces.id_to_piece(i) for i in range(pieces.get_piece_size())]
    names = [*dict.fromkeys(vocabulary), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    files = {f"{side}_spm": str(folder / f"{side}.model") for side in ("source", "target")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends another package
        return transformers.MarianTokenizer(**files, vocab=str(folder / "vocab.json"), model_max_length=128)


def test_a_tokenizer_without_offsets_is_read_too(subjects, marian_tokenizer):
    assert not marian_tokenizer.is_fast
    subject = nbsal.load(subjects["marian"].model, tokenizer=marian_tokenizer)
    text = ">>fra<<  The  film is a ﬁne joy. Who\nwrote the book?"
    result = nbsal.answer(subject, text, "A DULL FILM", method="occlusion", unit="word", progress=False)
    prompt = result.reading.prompt
    assert list(prompt.ids[: prompt.source_size]) == marian_tokenizer(text)["input_ids"]
    assert list(result.ids) == marian_tokenizer(text_target="A DULL FILM", add_special_tokens=False)["input_ids"]
    assert result.text == "A DULL FILM"
    words = [unit.text for unit in result.units]
    assert words[-5:] == ["Who", "wrote", "the", "book", "?"] and "ﬁne" in words
    assert prompt.owners[prompt.source_size - 1] == -1, "the end token"
    for unit in result.units:
        piece = text[prompt.spans[unit.tokens[-1]][0] : prompt.spans[unit.tokens[-1]][1]]
        assert piece.strip() in unit.text or unit.text in piece
    hiding = Hiding(subject, result.reading, result.units)
    assert np.abs(hiding.values(~np.eye(len(result.units), dtype=bool))).max() > 0
    with refuses("asked"):
        nbsal.answer(subject, "cafe\u0301", "A", progress=False)  # which the tokenizer writes with another letter


def test_messages_need_a_template(subjects):
    messages = [{"role": "user", "content": SOURCE}]
    with refuses("template"):
        nbsal.answer(subjects["t5"], messages, REPLY, progress=False)
    subject = nbsal.load(subjects["t5"].model, tokenizer=writers.tokenizer("chatml"))
    result = nbsal.answer(subject, messages, REPLY, progress=False)
    assert result.reading.prompt.names == ("user message 1",)


@cases(
    "settings, argument",
    [
        ({"reply": " a" * 600}, "asked"),
        ({"asked": "a " * 600}, "asked"),
        ({"reply": [2]}, "reply"),
        ({"reply": [1000]}, "reply"),
        ({"reply": [0]}, "reply"),
        ({"reply": None, "max_new_tokens": 512}, "max_new_tokens"),
        ({"unit": "lines"}, "unit"),
    ],
)
def test_what_cannot_be_is_refused(subjects, settings, argument):
    with pytest.raises(InputError) as caught:
        nbsal.answer(subjects["t5"], **{"asked": SOURCE, "reply": REPLY, "progress": False} | settings)
    assert caught.value.argument == argument


def test_an_lm_head_of_another_model_is_refused(subjects):
    for lm in ("tied", subjects["t5"].model):
        with refuses("lm"):
            nbsal.load(subjects["t5"].model, tokenizer=subjects["t5"].tokenizer, lm=lm)


def test_texts_without_a_reply_are_refused(subjects):
    explain = nbsal.Explainer(subjects["t5"], "gradxact")
    calls = (
        lambda: explain(SOURCE),
        lambda: explain.map([SOURCE], progress=False),
        lambda: explain.ids([5, 6]),
        lambda: explain.every_layer(SOURCE),
        lambda: nbsal.compare(subjects["t5"], ["gradxact"], [SOURCE]),
    )
    for call in calls:
        with pytest.raises(ModelError) as caught:
            call()
        assert caught.value.part == "task" and "nbsal.answer" in str(caught.value)
    with pytest.raises(ModelError):
        nbsal.Explainer(subjects["t5"], "transformer-attribution", start_layer=1)


VISION_AND_SPEECH = {
    "WhisperForConditionalGeneration": {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 60}
    | {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "pad_token_id": 0, "bos_token_id": 1}
    | {"eos_token_id": 2, "decoder_start_token_id": 1},
    "Speech2TextForConditionalGeneration": {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 60},
    "Pix2StructForConditionalGeneration": {},
}


@cases("name", VISION_AND_SPEECH)
def test_images_and_speech_are_refused(name):
    model_class = getattr(transformers, name)
    with torch.device("meta"):
        model = model_class(model_class.config_class(**VISION_AND_SPEECH[name]))
    with pytest.raises(ModelError) as caught:
        nbsal.load(model)
    assert caught.value.part == "input"


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_is_loaded(subjects, tmp_path, name):
    subject = subjects[name]
    subject.model.save_pretrained(tmp_path)
    subject.tokenizer.save_pretrained(tmp_path)
    loaded = nbsal.load(tmp_path, dtype="float64")
    assert loaded.task == "reply"
    ours, theirs = (answer(each, "gae")[1] for each in (subject, loaded))
    assert ours.reading == theirs.reading and np.array_equal(ours.scores, theirs.scores)


def test_the_model_is_left_as_it_was(subjects):
    subject = subjects["bart"]
    model = subject.model.train()

    def state():
        parameters = [(p.requires_grad, p._version) for p in model.parameters()]
        hooks = [m for m in model.modules() if m._forward_hooks or m._forward_pre_hooks]
        parts = (model, model.get_encoder(), model.get_decoder())
        return parameters, hooks, [(m.config._attn_implementation, m.training) for m in parts]

    before = state()
    for method in ("gae", "attn-lrp", "occlusion", "integrated", "gradxact"):
        answer(subject, method, reply=None, max_new_tokens=4, do_sample=True, temperature=2.0, seed=1)[1].lens()
        assert state() == before
    with pytest.raises(NbsalError):
        answer(subject, "gae", [10**6])
    assert state() == before
    model.eval()


def test_a_decoder_without_a_first_token_is_refused():
    subject = writers.load_sides("t5")
    for settings in (subject.model.config, subject.model.generation_config):
        settings.decoder_start_token_id = settings.bos_token_id = None
    with pytest.raises(ModelError) as caught:
        nbsal.answer(subject, "Who ran?", progress=False)
    assert caught.value.part == "decoder_start_token_id"
