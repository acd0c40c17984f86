"""Models of many families that reply: what is written, what is read again, and what explains it agree on each."""

import numpy as np
import pytest
import torch
import transformers

import nbsal
from nbsal.answers import hiding
from nbsal.answers.running import Predictions
from nbsal.errors import LanguageHeadError, ModelError
from nbsal.model.tokens import Encoded
from tests import axioms
from tests.answers import writers
from tests.answers.test_hiding import masked_by_hand
from tests.cases import cases

PROMPT, REPLY = "The film is a warm joy. The plot is a bore. Who wrote the book?", " The company wrote it."
PLAIN = {name: value for name, value in writers.SIZES.items() if name not in ("head_dim", "num_key_value_heads")}
GPT = {name: value for name, value in writers.MODELS["gpt2"][1].items() if name != "n_positions"}
FAMILIES = {
    "phi3": ("Phi3Config", {k: v for k, v in writers.SIZES.items() if k != "head_dim"}),
    "gpt_neox": ("GPTNeoXConfig", PLAIN),
    "cohere": ("CohereConfig", writers.SIZES),
    "bloom": ("BloomConfig", {"vocab_size": 400, "hidden_size": 32, "n_layer": 3, "n_head": 4, "pad_token_id": 0}),
    "opt": ("OPTConfig", {k: v for k, v in PLAIN.items() if k != "intermediate_size"} | {"ffn_dim": 48}),
    "qwen2": ("Qwen2Config", writers.SIZES),
    "gemma": ("GemmaConfig", writers.SIZES),
    "gemma3": ("Gemma3TextConfig", writers.SIZES | {"query_pre_attn_scalar": 8, "sliding_window": 16}),
    "olmo2": ("Olmo2Config", writers.SIZES),
    "stablelm": ("StableLmConfig", writers.SIZES),
    "granite": ("GraniteConfig", writers.SIZES | {"logits_scaling": 3.0}),
    "gptj": ("GPTJConfig", GPT | {"n_positions": 512, "rotary_dim": 4}),
    "codegen": ("CodeGenConfig", {k: v for k, v in GPT.items() if k != "pad_token_id"} | {"rotary_dim": 4}),
    "windowed mistral": ("MistralConfig", writers.SIZES | {"sliding_window": 12}),
}
IN_PLACE = ("opt", "gemma3", "windowed mistral")  # these count positions or windows by place


def build(name):
    config, sizes = FAMILIES[name]
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, config)(**sizes)).eval().double()
    return nbsal.load(model, tokenizer=writers.tokenizer())


@pytest.fixture(scope="module")
def subjects():
    return {name: build(name) for name in FAMILIES}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("method", ["gae", "gradxact", "attn-lrp"])
def test_a_row_is_the_explanation_of_its_token_alone(subjects, name, method):
    explain = nbsal.Explainer(subjects[name], method)
    result = explain.reply(PROMPT, REPLY, progress=False)
    predictions, token = Predictions(result.reading, result.number), len(result.ids) - 2
    end = result.reading.start + token
    (alone,) = explain.encoded(Encoded([result.reading.up_to(end)], 0), [predictions.target(token)])
    assert axioms.relative(result.scores[token, :end], alone.scores) < 1e-7 and alone.scores.any()
    assert not result.scores[token, end:].any()


@cases("name", FAMILIES)
def test_hidden_units_are_as_if_nobody_attended_to_them(subjects, name):
    result = nbsal.answer(subjects[name], PROMPT, REPLY, method="occlusion", progress=False)
    table = ~np.eye(len(result.units), dtype=bool)
    values = hiding.Hiding(subjects[name], result.reading, result.units).values(table)
    for unit, row in zip(result.units, values, strict=True):
        hidden = [token for token in unit.tokens if token]
        assert row == pytest.approx(masked_by_hand(subjects[name], result.reading, hidden), abs=1e-6)
    assert (result.provenance["hidden"] == "masked in place") == (name in IN_PLACE)


@cases("name", FAMILIES)
def test_the_last_layer_says_what_the_model_says(subjects, name):
    result = nbsal.answer(subjects[name], PROMPT, REPLY, method="random", progress=False)
    frame = result.lens()
    last = frame[frame["layer"] == frame["layer"].max()]
    assert last["logprob"].to_numpy() == pytest.approx(result.statistics.logprob, abs=1e-9)
    assert last["rank"].tolist() == result.statistics.rank.tolist()


def test_a_head_that_changes_its_logits_in_another_way_is_refused(monkeypatch):
    """Its lens would not be what the model says."""
    subject = writers.load()
    forward = type(subject.model).forward

    def scaled(self, *args, **settings):
        output = forward(self, *args, **settings)
        output.logits = torch.tanh(output.logits)
        return output

    monkeypatch.setattr(type(subject.model), "forward", scaled)
    result = nbsal.answer(nbsal.load(subject.model, tokenizer=subject.tokenizer), PROMPT, REPLY, progress=False)
    with pytest.raises(LanguageHeadError):
        result.lens()


EVERY = [*writers.MODELS, "t5", "bart", "marian"]


def load(name, dtype):
    return writers.load(name, dtype=dtype) if name in writers.MODELS else writers.load_sides(name, dtype)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_a_reply_read_again_has_the_logits_it_was_written_with(name, dtype):
    """And whatever is read again is the same answer."""
    subject = load(name, dtype)
    settings = {"method": "gradxact", "progress": False}
    drawing = {"do_sample": True, "temperature": 1.5, "top_k": 0, "max_new_tokens": 6}
    written = nbsal.answer(subject, PROMPT, seed=3, **drawing, **settings)
    prompt = written.reading.prompt
    torch.manual_seed(3)
    output = subject.model.generate(
        torch.tensor([prompt.ids[: prompt.source_size or None]]),
        output_logits=True,
        return_dict_in_generate=True,
        pad_token_id=0,
        **drawing,
    )
    assert tuple(output.sequences[0, len(prompt.ids) - prompt.source_size :].tolist()) == written.ids
    raw = torch.stack(output.logits)[-len(written.ids) :, 0].double().log_softmax(-1)
    assert written.statistics.logprob == pytest.approx(
        raw.gather(1, torch.tensor(written.ids)[:, None])[:, 0], abs=1e-5
    )
    again = nbsal.answer(subject, PROMPT, written.ids, **settings)
    for frame in ("matrix", "sources", "lens"):
        assert getattr(again, frame)().equals(getattr(written, frame)())
    assert again.tokens().drop(columns="drawn").equals(written.tokens().drop(columns="drawn"))


@pytest.mark.parametrize("name", [*writers.MODELS, "pegasus", "bart", "marian"])  # the T5 writes padding only
def test_a_greedy_reply_has_the_likeliest_tokens(name):
    subject = load(name, torch.float64)
    result = nbsal.answer(subject, PROMPT, method="random", max_new_tokens=5, progress=False)
    assert result.statistics.rank.tolist() == [1] * len(result.ids)
    assert result.tokens()["drawn"].to_numpy(float) == pytest.approx(result.tokens()["probability"], abs=1e-6)


@pytest.mark.parametrize("name", ["llama", "bart"])
def test_a_seed_leaves_every_generator_alone(name):
    import random

    subject = load(name, torch.float64)
    before = (torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate())
    settings = {"do_sample": True, "temperature": 1.5, "max_new_tokens": 6, "seed": 8, "progress": False}
    first, second = (nbsal.answer(subject, PROMPT, method=["lime", "random"], **settings)["lime"] for _ in range(2))
    assert first.ids == second.ids and np.array_equal(first.scores, second.scores)
    assert before == (torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate())


def test_positions_with_gaps_need_an_attention_mask(monkeypatch):
    """Without one, models take tokens that follow a gap for those of another text."""
    subject = writers.load("qwen3")
    result = nbsal.answer(subject, PROMPT, REPLY, method="random", progress=False)
    units = result.reading.units("sentence")
    table = np.array([[True, False, True], [False, True, True]])
    masks = []
    subject.model.register_forward_pre_hook(
        lambda _, args, inputs: masks.append("attention_mask" in inputs), with_kwargs=True
    )
    hidden = hiding.Hiding(subject, result.reading, units)
    values = hidden.values(table)
    assert hidden.way == "left out, positions kept" and all(masks)
    logits = nbsal.Subject.logits
    monkeypatch.setattr(
        nbsal.Subject,
        "logits",
        lambda self, inputs: logits(self, {k: v for k, v in inputs.items() if k != "attention_mask"}),
    )
    without = hiding.Hiding(subject, result.reading, units)
    without._drops = True
    without.batch_size = 1
    assert np.abs(without.values(table) - values).max() > 1e-3, "as packed texts"


GPU = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))
EXPERTS = ("MixtralConfig", writers.SIZES | {"num_local_experts": 4, "num_experts_per_tok": 2})


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("config", [writers.MODELS["llama"], EXPERTS], ids=["llama", "experts"])
@pytest.mark.parametrize("method", ["gae", "gradxact", "occlusion"])
def test_bfloat16_is_close(device, config, method):
    """But for experts, of which rounding may choose others."""
    scores = []
    for dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, config[0])(**config[1])).eval()
        subject = nbsal.load(model.to(device, dtype), tokenizer=writers.tokenizer(), dtype="model")
        scores.append(nbsal.answer(subject, PROMPT, REPLY, method=method, progress=False).scores)
    single, half = scores
    assert np.isfinite(half).all() and half.any() and not np.array_equal(single, half)
    assert config is EXPERTS or np.corrcoef(single.ravel(), half.ravel())[0, 1] > 0.99


def test_attention_in_a_way_of_its_own_is_named():
    """Falcon's has no plain softmax to read; its gradients and hidden units can be read."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(transformers.FalconConfig(**PLAIN)).eval().double()
    subject = nbsal.load(model, tokenizer=writers.tokenizer())
    for method in ("gradxact", "occlusion"):
        assert nbsal.answer(subject, PROMPT, REPLY, method=method, progress=False).scores.any()
    with pytest.raises(ModelError) as caught:
        nbsal.answer(subject, PROMPT, REPLY, progress=False)
    assert caught.value.part == "attention maps"
