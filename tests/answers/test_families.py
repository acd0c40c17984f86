"""Models of many families that reply: what is written, what is read again, and what explains it agree on each."""

from itertools import compress, cycle, product

import numpy as np
import pytest
import torch
import transformers

import nbsal
from nbsal.support.errors import LanguageHeadError, ModelError
from tests.ablation.runs import hide
from tests.ablation.test_reply import masked_by_hand
from tests.answers import writers
from tests.answers.test_rows import check_row

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
    "mpt": ("MptConfig", {"vocab_size": 400, "d_model": 32, "n_heads": 4, "n_layers": 3, "expansion_ratio": 2}),
}
IN_PLACE = ("opt", "gemma3", "windowed mistral", "mpt")  # these count positions or windows by place


def build(name):
    config, sizes = (writers.MODELS | FAMILIES)[name]
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, config)(**sizes)).eval().double()
    return nbsal.load(model, tokenizer=writers.tokenizer())


@pytest.mark.some(8)
@pytest.mark.parametrize(
    ("name", "method"), list(zip(writers.MODELS | FAMILIES, cycle(["gae", "gradxact", "attn-lrp"]), strict=False))
)
def test_rows_hidden_units_and_the_lens_agree_with_the_model(name, method):
    """Rows with those of a token alone, hidden units with an attention mask, the last layer with the probabilities."""
    subject = build(name)
    explain = nbsal.Explainer(subject, method)
    result = explain.reply(PROMPT, REPLY, unit="sentence", progress=False)
    check_row(explain, result, len(result.ids) - 2)
    experiment = hide(subject, result.reading, result.units)
    subsets = np.array(list(product([True, False], repeat=len(result.units))))
    for subset, row in zip(subsets, experiment.numbers(subsets), strict=True):
        tokens = [token for unit in compress(result.units, ~subset) for token in unit.tokens if token]
        assert row == pytest.approx(masked_by_hand(subject, result.reading, tokens), abs=1e-6)
    assert (experiment.hidden == "masked in place") == (name in IN_PLACE)
    frame = result.lens()
    last = frame[frame["layer"] == frame["layer"].max()]
    assert last["logprob"].to_numpy() == pytest.approx(result.statistics.logprob, abs=1e-9)
    assert last["rank"].tolist() == result.statistics.rank.tolist()


def test_a_head_that_changes_its_logits_in_another_way_is_refused(monkeypatch):
    """Its lens would not be what the model says."""
    model = writers.load().model
    forward = type(model).forward

    def bounded(self, *args, **settings):
        output = forward(self, *args, **settings)
        output.logits = torch.tanh(output.logits)
        return output

    monkeypatch.setattr(type(model), "forward", bounded)
    result = nbsal.answer(nbsal.load(model, tokenizer=writers.tokenizer()), PROMPT, REPLY, progress=False)
    with pytest.raises(LanguageHeadError):
        result.lens()


EVERY = [*writers.MODELS, "t5", "bart", "marian"]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_a_reply_read_again_has_the_logits_it_was_written_with(name, dtype):
    """And whatever is read again is the same answer."""
    subject = writers.load(name, dtype)
    settings = {"method": "gradxact", "progress": False}
    drawing = {"do_sample": True, "temperature": 1.5, "top_k": 0, "max_new_tokens": 6}
    written = nbsal.answer(subject, PROMPT, seed=3, **drawing, **settings)
    prompt = written.reading.prompt
    torch.manual_seed(3)
    output = subject.model.generate(
        torch.tensor([prompt.ids[: prompt.source_size or None]]),
        **drawing | {"output_logits": True, "return_dict_in_generate": True, "pad_token_id": 0},
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


def test_positions_with_gaps_have_an_attention_mask():
    """Without one, models take tokens that follow a gap for those of another text."""
    subject, masks = writers.load("qwen3"), []
    reading = nbsal.answer(subject, PROMPT, REPLY, method="random", progress=False).reading
    subject.model.register_forward_pre_hook(
        lambda _, args, inputs: masks.append("attention_mask" in inputs), with_kwargs=True
    )
    experiment = hide(subject, reading, reading.units("sentence"))
    experiment.numbers([[True, False, True], [False, True, True]])
    assert experiment.hidden == "left out, positions kept" and masks and all(masks)


def test_biases_that_count_from_the_end_change_no_relevance():
    """MPT's biases of a cut text differ from those of the whole by a constant, which relevance must not divide."""
    explain = nbsal.Explainer(build("mpt"), "attn-lrp")
    result = explain.reply(PROMPT, REPLY, unit="sentence", progress=False)
    for place in range(len(result.ids)):
        check_row(explain, result, place)


GPU = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("method", ["gae", "gradxact", "occlusion"])
def test_bfloat16_is_close(device, method):
    scores = []
    for dtype in (torch.float32, torch.bfloat16):
        model = writers.load("llama", dtype).model.to(device)
        subject = nbsal.load(model, tokenizer=writers.tokenizer(), dtype="model")
        scores.append(nbsal.answer(subject, PROMPT, REPLY, method=method, progress=False).scores)
    single, half = scores
    assert not np.array_equal(single, half) and np.corrcoef(single.ravel(), half.ravel())[0, 1] > 0.99


def test_attention_in_a_way_of_its_own_is_named():
    """Falcon with alibi shows other maps than it uses; its gradients and hidden units can be read."""
    torch.manual_seed(0)
    model = (
        transformers.AutoModelForCausalLM.from_config(transformers.FalconConfig(**PLAIN, alibi=True)).eval().double()
    )
    subject = nbsal.load(model, tokenizer=writers.tokenizer())
    for method in ("gradxact", "occlusion"):
        assert nbsal.answer(subject, PROMPT, REPLY, method=method, progress=False).scores.any()
    with pytest.raises(ModelError) as caught:
        nbsal.answer(subject, PROMPT, REPLY, method="gae", progress=False)
    assert caught.value.part == "attention maps"
