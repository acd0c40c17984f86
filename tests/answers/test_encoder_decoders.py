"""Replies of encoder-decoders: read, hidden, saved and refused as the models ask for."""

import json

import numpy as np
import pytest
import torch
import transformers

import nbsal
from nbsal.model import encoder_decoder
from nbsal.support.errors import ModelError
from tests import zoo
from tests.ablation.runs import hide
from tests.answers import writers
from tests.answers.writers import REPLY, SOURCE, answer, values_of
from tests.cases import cases
from tests.raising import refuses

NAMES = ("t5", "bart", "marian")


@pytest.fixture(scope="module")
def subjects():
    return {name: writers.load(name) for name in writers.ENCODER_DECODERS}


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
    assert subject.task == "reply" and subject.depth == 3 and encoder_decoder.depth(model, encoder_decoder.REPLY) == 2
    frame = result.lens(k=3)
    assert set(frame["layer"]) == {0, 1, 2}
    last = frame[frame["layer"] == 2]
    assert last["logprob"].to_numpy() == pytest.approx(result.statistics.logprob, abs=1e-6)
    assert last["rank"].tolist() == result.statistics.rank.tolist()
    with refuses("layers", nbsal.support.errors.UnknownName):
        result.lens([3])


@cases("name", NAMES)
def test_what_generate_returns_is_a_reply_as_it_is(subjects, name):
    """With and without the tokens that the decoder begins with."""
    subject = subjects[name]
    settings = {"do_sample": True, "temperature": 1.5, "top_k": 0, "max_new_tokens": 9}
    written = answer(subject, "random", reply=None, seed=1, **settings)[1]
    prompt = written.reading.prompt
    torch.manual_seed(1)
    (output,) = subject.model.generate(torch.tensor([prompt.ids[: prompt.source_size]]), **settings)
    start = prompt.ids[prompt.source_size :]
    assert output.tolist() == [*start, *written.ids] and len(written.ids) > 3
    for whole in (output, output[len(start) - 1 :]):
        assert answer(subject, "random", whole)[1].ids == written.ids


def test_a_language_is_forced_by_a_setting(subjects):
    result = answer(subjects["marian"], "gae", forced_bos_token_id=4)[1]
    prompt = result.reading.prompt
    assert prompt.tokens[prompt.source_size :] == ("<pad>", "<|im_end|>")
    assert result.provenance["reply begins with"] == ["<pad>", "<|im_end|>"]
    assert result.scores.shape == (len(result.ids), prompt.source_size + 2 + len(result.ids))


@cases("name, way", [*[(name, "remove") for name in NAMES], ("bart", "text"), ("bart", "pad"), ("bart", 7)])
def test_units_are_hidden_in_the_source_alone(subjects, name, way):
    """By the encoder's mask, written anew without a unit, or with another token in its place."""
    subject = subjects[name]
    reading = answer(subject, "random")[1].reading
    units, size = reading.units("sentence"), reading.prompt.source_size
    experiment, table = hide(subject, reading, units, way), ~np.eye(len(units), dtype=bool)
    for unit, row in zip(units, experiment.numbers(table), strict=True):
        source, mask, hidden = torch.tensor([reading.row.ids[:size]]), torch.ones(1, size), list(unit.tokens)
        if way == "remove":
            mask[0, hidden] = 0
        elif way == "text":
            start, end = unit.span
            source = torch.tensor([subject.tokenizer((SOURCE[:start] + SOURCE[end:]).strip())["input_ids"]])
            mask = torch.ones_like(source)
        else:
            source[0, hidden] = 0 if way == "pad" else way
        begins = torch.tensor([reading.row.ids[size:-1]])
        with torch.no_grad():
            logits = subject.model(source, attention_mask=mask, decoder_input_ids=begins).logits[0]
        expected = logits[reading.position(0) :].log_softmax(-1).gather(1, torch.tensor(reading.reply_ids)[:, None])
        assert row == pytest.approx(expected[:, 0].numpy(), abs=1e-7)
    assert experiment.ablation.forwards == len(experiment.numbers(table))
    assert (experiment.hidden == "masked in place") == (way == "remove")


def test_a_source_without_end_keeps_one_token(subjects):
    subject = nbsal.load(subjects["t5"].model, tokenizer=writers.tokenizer(None))
    reading = answer(subject, "random")[1].reading
    values = hide(subject, reading, reading.units("sentence")).numbers([[False] * 3])
    mask = torch.zeros(1, reading.prompt.source_size)
    mask[0, 0] = 1
    with torch.no_grad():
        expected, _ = values_of(subject.model, torch.tensor([reading.row.ids]), reading, attention_mask=mask)
    assert values[0] == pytest.approx(expected.numpy(), abs=1e-7)


def test_documents_stand_before_the_source(subjects):
    documents = {"Notes": "Ann wrote the book.", "Prices": "Prices fell on Monday."}
    explain = nbsal.Explainer(subjects["t5"], "occlusion")
    result = explain.reply(SOURCE, REPLY, documents=documents, unit="document", progress=False)
    assert [unit.name for unit in result.units] == ["prompt", "document 1, Notes", "document 2, Prices"]
    assert result.provenance["documents"] == "before the question"
    placed = explain.reply("Read {documents} now.", REPLY, documents=documents, unit="document", progress=False)
    assert placed.provenance["documents"] == "at the placeholder"
    for level in ("token", "document"):
        assert result.matrix("reply", level).to_numpy().sum() == pytest.approx(result.scores.sum())


def marian_tokenizer(folder):
    """A tokenizer of Marian, which gives no offsets, with a vocabulary of its own for each side."""
    sentencepiece = pytest.importorskip("sentencepiece")
    vocabulary, files = ["</s>", "<unk>", ">>fra<<"], {}
    for side, corpus in (("source", zoo.CORPUS), ("target", [text.upper() for text in zoo.CORPUS])):
        options = {"vocab_size": 90, "hard_vocab_limit": False, "minloglevel": 2, "model_prefix": str(folder / side)}
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus), **options)
        files[f"{side}_spm"] = str(folder / f"{side}.model")
        pieces = sentencepiece.SentencePieceProcessor(files[f"{side}_spm"])
        vocabulary += [pieces.id_to_piece(i) for i in range(pieces.get_piece_size())]
    names = [*dict.fromkeys(vocabulary), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    return transformers.MarianTokenizer(**files, vocab=str(folder / "vocab.json"), model_max_length=128)


@pytest.mark.filterwarnings("ignore")  # the tokenizer recommends another package
def test_a_tokenizer_without_offsets_is_read_too(subjects, tmp_path):
    tokenizer, text = marian_tokenizer(tmp_path), ">>fra<<  The  film is a ﬁne joy. Who\nwrote the book?"
    subject = nbsal.load(subjects["marian"].model, tokenizer=tokenizer)
    result = nbsal.answer(subject, text, "A DULL FILM", method="occlusion", unit="word", progress=False)
    prompt = result.reading.prompt
    assert list(prompt.ids[: prompt.source_size]) == tokenizer(text)["input_ids"] and not tokenizer.is_fast
    assert list(result.ids) == tokenizer(text_target="A DULL FILM", add_special_tokens=False)["input_ids"]
    assert result.text == "A DULL FILM"
    words = [unit.text for unit in result.units]
    assert words[-5:] == ["Who", "wrote", "the", "book", "?"] and "ﬁne" in words
    assert prompt.owners[prompt.source_size - 1] == -1, "the end token"
    with refuses("asked"):
        nbsal.answer(subject, "cafe\u0301", "A", progress=False)  # which the tokenizer writes with another letter


@cases(
    "settings, argument",
    [
        ({"reply": " a" * 600}, "asked"),
        ({"asked": "a " * 600}, "asked"),
        *(({"reply": [index]}, "reply") for index in (2, 1000, 0)),
        ({"reply": None, "max_new_tokens": 512}, "max_new_tokens"),
        ({"forced_bos_token_id": 4000}, "decoder_start_token_id"),
        ({"asked": [{"role": "user", "content": SOURCE}]}, "template"),
    ],
)
def test_what_cannot_be_is_refused(subjects, settings, argument):
    with refuses(argument):
        nbsal.answer(subjects["t5"], **{"asked": SOURCE, "reply": REPLY, "progress": False} | settings)


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
        assert caught.value.part == "task"
    with pytest.raises(ModelError):
        nbsal.Explainer(subjects["t5"], "transformer-attribution", start_layer=1)


@cases("method, part", [("decoded-gradcam", "lm_head"), ("alti", "stacks"), ("mask-lrp", "stacks")])
def test_methods_that_read_one_stack_are_refused(subjects, method, part):
    with pytest.raises(ModelError) as caught:
        answer(subjects["t5"], method)
    assert caught.value.part == part


@cases("name", ["Whisper", "Speech2Text", "Pix2Struct"])
def test_images_and_speech_are_refused(name):
    model_class = getattr(transformers, f"{name}ForConditionalGeneration")
    sizes = {"d_model": 24, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 60, "pad_token_id": 0}
    with torch.device("meta"):
        model = model_class(model_class.config_class(**{} if name == "Pix2Struct" else sizes))
    with pytest.raises(ModelError) as caught:
        nbsal.load(model)
    assert caught.value.part == "input"


def test_a_decoder_without_a_first_token_is_refused():
    subject = writers.load("t5")
    for settings in (subject.model.config, subject.model.generation_config):
        settings.decoder_start_token_id = settings.bos_token_id = None
    with pytest.raises(ModelError) as caught:
        answer(subject, "random")
    assert caught.value.part == "decoder_start_token_id"


@cases("name", NAMES)
def test_a_folder_is_loaded(subjects, tmp_path, name):
    subject = subjects[name]
    subject.model.save_pretrained(tmp_path)
    subject.tokenizer.save_pretrained(tmp_path)
    loaded = nbsal.load(tmp_path, dtype="float64")
    assert loaded.task == "reply"
    ours, theirs = (answer(each, "gae")[1] for each in (subject, loaded))
    assert ours.reading == theirs.reading and np.array_equal(ours.scores, theirs.scores)
