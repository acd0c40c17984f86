"""Information flow routes: the numbers of Pan et al.'s program, a slow replica of every kind of block, spans, copies.

`tests/data/golden/ifr.npz` holds what flashtrace 0.1.1 (MIT) computes on the models of `published_model` with its
functions `compute_ifr_sentence_aggregate` (span), `compute_ifr_for_all_positions` (all) and `compute_multi_hop_ifr`
(observation["sum"]), where it rounds to float32 in between replaced by float64.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers

import nbsal
from nbsal.methods import alti, catalogue, ifr
from nbsal.model.running.hooks import first_tensor
from nbsal.model.target import Target
from nbsal.passes import reply_trace, trace
from nbsal.support.progress import Meter
from nbsal.testing import tiny_models
from tests import axioms, golden, zoo
from tests.cases import cases
from tests.raising import refuses_part

VALUES = np.load(golden.FOLDER / "ifr.npz")
SIZES = zoo.SIZES | {"num_key_value_heads": 2, "head_dim": 8, "vocab_size": 50}
IDS = [7, 41, 3, 18, 22, 9, 33, 12, 45, 28, 16, 5, 38, 24, 11, 30]
SPAN, THINKING = (10, 13), (5, 9)  # first and last position
IFR = catalogue.create("ifr")


def published_model(kind):
    """A tiny decoder with grouped heads, whose weights are the same with every version of torch."""
    config = {"llama": transformers.LlamaConfig, "qwen3": transformers.Qwen3Config}[kind](**SIZES)
    model, random = transformers.AutoModelForCausalLM.from_config(config).double().eval(), np.random.RandomState(0)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            weight.copy_(torch.tensor(random.normal("norm" in name, 0.3, weight.shape)))
    return model


def read(record, weights):
    """The scores of the first text for a target whose terms have those weights, by position."""
    target = Target("span", tuple(((int(position), 0), float(weight)) for position, weight in weights.items()))
    decision = replace(record.decisions[0], target=target)
    return IFR.scores(replace(record, decisions=[decision], cache=dict(record.cache)))[0].numpy()


def after_hops(record, count):
    """What the span receives from the prompt, directly and through the positions of THINKING, as Pan et al. sum it."""
    (first, last), thinking = SPAN, range(THINKING[0], THINKING[1] + 1)
    scores = read(record, dict.fromkeys(range(first, last + 1), 1))
    result, ratio = scores.copy(), 1.0
    for _ in range(count):
        ratio *= scores[thinking].sum() / scores.sum()
        scores = read(record, dict(zip(thinking, scores[thinking], strict=True)))
        result += ratio * scores
    result[THINKING[0] :] = 0
    return result


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_scores_are_those_of_the_published_program(kind, stream):
    subject = nbsal.load(published_model(kind))
    record = trace.record(subject, subject.encode_ids([IDS]), needs=IFR.needs, stream=stream)
    span = read(record, dict.fromkeys(range(SPAN[0], SPAN[1] + 1), 1))
    assert axioms.relative(span, VALUES[f"{kind} span"]) < 1e-6 and not span[SPAN[1] + 1 :].any()
    for position, row in enumerate(VALUES[f"{kind} all"]):
        assert axioms.relative(read(record, {position: 1}), row) < 1e-6
    for count in (1, 2, 5):
        assert axioms.relative(after_hops(record, count), VALUES[f"{kind} {count} hops"]) < 1e-6


OTHERS = {  # kinds of decoders that no other test builds
    "mistral": ("MistralConfig", zoo.GROUPED, "pieces"),
    "qwen2": ("Qwen2Config", zoo.SIZES | {"num_key_value_heads": 2}, "bytes"),
    "qwen2-moe": ("Qwen2MoeConfig", zoo.EXPERTS | {"num_experts": 4, "moe_intermediate_size": 24}, "bytes"),
    "gemma": ("GemmaConfig", zoo.GROUPED, "pieces"),
    "olmo": ("OlmoConfig", zoo.SIZES, "bytes"),
    "olmo2": ("Olmo2Config", zoo.SIZES, "bytes"),
    "stablelm": ("StableLmConfig", zoo.SIZES | {"num_key_value_heads": 4}, "bytes"),
    "starcoder2": ("Starcoder2Config", zoo.SIZES | {"num_key_value_heads": 2}, "bytes"),
    "phi": ("PhiConfig", zoo.SIZES, "bytes"),
    "gptj": ("GPTJConfig", {"n_embd": 32, "n_layer": 3, "n_head": 4, "rotary_dim": 4, "n_positions": 64}, "bytes"),
}
# The module whose output a pre-norm block adds last, and the norm of a post-norm block that reads the residual stream.
LAST = dict.fromkeys(("gemma2", "gemma3_text", "olmo2"), "post_feedforward_layernorm") | {
    "opt": "fc2", "bloom": "mlp.dense_4h_to_h",
}  # fmt: skip
NORMS = {kind: parts.norm for kind, parts in alti.PARTS.items()} | {"big_bird": alti.PARTS["bert"].norm}
REFUSED = {"deberta", "longformer", "xlnet", "bart", "t5", "falcon", "xglm", "mamba"}


@torch.no_grad()
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("name", sorted({*zoo.ARCHITECTURES, *zoo.OTHERS, *OTHERS} - REFUSED))
def test_what_positions_bring_adds_up_to_the_residual_stream(checkpoints, name, biased, monkeypatch):
    """But for biases, without which it is linear."""
    if name in OTHERS:
        model, tokenizer = tiny_models.build(OTHERS[name], "causal"), tiny_models.tokenizer(OTHERS[name][2])
        subject = nbsal.load(model if "moe" in name else model.double(), tokenizer=tokenizer)
    else:
        subject = zoo.load(checkpoints, name, "sequence" if name in zoo.ENCODERS | zoo.OTHER_ENCODERS else "causal")
    random = torch.Generator().manual_seed(0)
    for path, weight in subject.model.named_parameters():
        noise = torch.empty_like(weight).uniform_(-0.3, 0.3, generator=random)
        if path.endswith("bias"):
            weight.copy_(noise * biased)
        elif weight.ndim == 1:  # of a norm
            weight.add_(noise)
    kind, streams, compared = subject.model.config.model_type, [], []
    proximities = ifr._proximities
    monkeypatch.setattr(ifr, "_proximities", lambda *values: compared.append(values) or proximities(*values))

    def add(module, args, output):
        streams.append((args[0] if kind in NORMS else first_tensor(output)).reshape(-1, subject.width))

    for block in dict.fromkeys(subject.blocks):
        block.get_submodule(NORMS.get(kind, LAST.get(kind, "mlp"))).register_forward_hook(add)
    record = trace.record(subject, subject.encode(axioms.TEXTS[0]), needs=IFR.needs)
    IFR.scores(record)
    at, limit = int(ifr.reading_weights(record)[0].argmax()), 1e-5  # some norms round to float32
    for number, (sent, output, attention, whole) in enumerate(reversed(compared)):
        read, written = record.hidden[number][0], record.hidden[number + 1][0]
        truth = streams[number][at] if kind in NORMS else written[at] - streams[number][at]
        assert axioms.relative(whole[0], truth) < limit
        if not biased:
            brought = torch.einsum("hjd,ohd,hij->o", sent, output, attention)
            assert axioms.relative(read[at] + brought, truth) < limit


@torch.no_grad()
@cases("name, centres", [("ifr", True), ("ifr@flashtrace", False)])
def test_layer_norms_are_linear_at_their_own_scale(load, name, centres):
    """GPT-2's blocks in a loop over heads and positions; FlashTrace does not subtract the mean."""
    subject = load("gpt2", "causal")
    for weight in subject.model.parameters():
        weight.add_(torch.linspace(-0.3, 0.3, weight.numel()).view_as(weight) * (weight.ndim == 1))
    ours = nbsal.Explainer(subject, name)(axioms.TEXTS[0], target=3)
    record = trace.record(subject, subject.encode(axioms.TEXTS[0]), needs=("hidden", "attention"))
    size, last, truth = subject.width // subject.heads, len(ours.tokens) - 1, 0
    for number, block in enumerate(subject.blocks):
        x, weights = record.hidden[number][0], record.attention[number][0][:, last]
        deviation = (x.var(-1, unbiased=False, keepdim=True) + block.ln_1.eps).sqrt()
        normed = (x - x.mean(-1, keepdim=True) if centres else x) / deviation * block.ln_1.weight
        values, bias = block.attn.c_attn.weight[:, -subject.width :], block.attn.c_attn.bias[-subject.width :]
        output = block.attn.c_proj.weight.view(subject.heads, size, -1)
        attended = torch.einsum(
            "hj,jhd,hdo->o", weights, (block.ln_1(x) @ values + bias).view(-1, *output.shape[:2]), output
        )
        whole = x[last] + attended + block.attn.c_proj.bias
        proximity = lambda part, whole=whole: max(0, float(whole.abs().sum() - (whole - part).abs().sum()))  # noqa: E731
        brought = torch.einsum("hj,jhd,hdo->hjo", weights, (normed @ values).view(-1, *output.shape[:2]), output)
        near = np.array([[proximity(part) for part in head] for head in brought]).sum(0)
        truth = truth + near / (near.sum() + proximity(x[last]))
    assert axioms.relative(ours.scores, truth) < 1e-7


@pytest.mark.parametrize(("name", "settings"), [("xglm", {}), ("opt", {"do_layer_norm_before": False})])
def test_other_blocks_are_refused(name, settings):
    subject = nbsal.load(zoo.model(name, "causal", **settings), tokenizer=tiny_models.tokenizer(zoo.OTHERS[name][2]))
    with refuses_part("attention blocks"):
        nbsal.Explainer(subject, "ifr")


def test_copies_of_a_row_share_what_positions_send(load, monkeypatch):
    """Every prediction of a reply has the scores that it has in a text of its own."""
    subject, calls, by_head = load("llama", "causal"), [], ifr._proximities
    monkeypatch.setattr(ifr, "_proximities", lambda *values: calls.append(1) or by_head(*values))
    row, rows = subject.encode(axioms.TEXTS[0])[0], {}
    targets = [Target("", (((position, 5), 1.0),)) for position in range(4, 10)]
    use = lambda job, _, part: rows.update(zip(job.places, IFR.scores(part), strict=True))  # noqa: E731
    reply_trace.run_targets({"": IFR}, subject, [row] * len(targets), targets, "pass", use, Meter(None))
    assert len(calls) == subject.depth
    for number, scores in rows.items():
        alone = nbsal.Explainer(subject, "ifr")(axioms.TEXTS[0], target=(4 + number, 5)).scores
        assert axioms.relative(scores, alone) < 1e-10 and not alone[5 + number :].any()


def test_a_span_is_read_by_the_size_of_its_coefficients(load):
    subject = load("gpt2", "causal")
    for path, weight in subject.model.named_parameters():
        if path.endswith("c_proj.bias"):
            weight.data.fill_(0.3)  # which a span adds once
    record = trace.record(subject, subject.encode(axioms.TEXTS[0]), needs=IFR.needs)
    decision = replace(record.decisions[0], target=Target("", (((7, 3), 0.5), ((9, 3), 1.0), ((7, 4), -1.5))))
    scores = IFR.scores(replace(record, decisions=[decision], cache={}))[0]
    assert axioms.relative(scores, read(record, {7: 4, 9: 2})) < 1e-12
    assert axioms.relative(scores, read(record, {7: 1, 9: 1})) > 1e-3
    assert not read(record, {7: 0}).any()
