"""What relevance costs beside a gradient, in forward passes of the stock model: `python -m tests.bench.attribution`.

CPU time of one thread, interleaved. AttnLRP of every token of a reply by a random Llama of width 192 stands beside the
rules of LXT (Achtibat et al. 2024) in one graph, followed token by token, and beside captum; a random bert-base has a
batch and one text, and a random ModernBERT of 6 blocks, width 128 and 4 heads long texts, with the memory that they
take beyond the model. Integrated gradients of six reviews by demo/reviews, 50 steps from padding, stand beside those of
captum, which runs all texts in one batch, or each by itself with all of its points at once. Fifteen methods share one
trace of 16 texts, or take one each. `--only` chooses replies, batch, text, long, paths or shared.
"""

import copy
import gc
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product
from unittest import mock

import numpy as np
import torch
import transformers
from captum.attr import LayerGradientXActivation, LayerIntegratedGradients, LLMGradientAttribution, TextTokenInput
from torch.nn import functional
from transformers.models.llama import modeling_llama

import nbsal
from nbsal.explain.prompt import prompts, sources
from nbsal.passes import trace
from tests.answers.writers import tokenizer
from tests.bench import growth, table
from tests.bench.decoding import rows
from tests.bench.measure import alone, cpu, head_products, in_forwards, products, random_bert
from tests.bench.table import Row, at_least, cost, spread

UNIT = "forward passes"
REPLIES = {(4, 32): 42, (12, 64): 62}  # blocks, and tokens of the reply to a prompt of 504: the goal
LONG = (2048, 4096)
STEPS, REPEATS = 50, 3  # points of a path; measurements of a round, of which the least counts
PARTS = ("replies", "batch", "text", "long", "paths", "shared")
LAYERED = ("gradcam", "simple", "gradxact")  # at layers 0 and 7, and decoded at layer 7
SHARED = [(name, {"layer": layer}) for name in LAYERED for layer in (0, 7)]
SHARED += [(f"decoded-{name}", {"layer": 7}) for name in LAYERED]
SHARED += [(name, {}) for name in ("raw-attention", "rollout", "attention-cam", "attention-gradcam", "attcat", "gae")]


def load(blocks: int, quick: bool) -> nbsal.Subject:
    """A random Llama in float32."""
    torch.manual_seed(0)
    width, inner, heads = (32, 64, 2) if quick else (192, 512, 6)
    sizes = {"hidden_size": width, "intermediate_size": inner, "num_attention_heads": heads}
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "num_hidden_layers": blocks}
    config = transformers.LlamaConfig(vocab_size=400, **sizes, **special)
    reader = copy.deepcopy(tokenizer(None))
    reader.model_max_length = config.max_position_embeddings
    return nbsal.load(transformers.LlamaForCausalLM(config).eval(), tokenizer=reader)


def share(x, part):
    """The same value with a part of the gradient."""
    return x * part + (x * (1 - part)).detach()


def lxt_scores(model, ids, reply):
    """AttnLRP as LXT computes it: input times gradient under its rules, a backward pass a token in one graph."""
    attend = functional.scaled_dot_product_attention

    def norm(self, x):
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.variance_epsilon).detach())

    def feed_forward(self, x):
        gate = self.gate_proj(x)
        active = gate * (functional.silu(gate) / (gate + 1e-10)).detach()
        return self.down_proj(share(active * self.up_proj(x), 0.5))

    def attention(q, k, v, **options):
        return attend(share(q, 0.25), share(k, 0.25), share(v, 0.5), **options)

    with ExitStack() as stack:
        for owner, name, changed in (
            (modeling_llama.LlamaRMSNorm, "forward", norm),
            (modeling_llama.LlamaMLP, "forward", feed_forward),
            (functional, "scaled_dot_product_attention", attention),
        ):
            stack.enter_context(mock.patch.object(owner, name, changed))
        states = model.get_input_embeddings()(ids).detach().requires_grad_()
        logits = model(inputs_embeds=states, use_cache=False, logits_to_keep=len(reply) + 1).logits[0]
    scores = []
    for position, index in enumerate(reply):
        (gradient,) = torch.autograd.grad(logits[position, index], states, retain_graph=True)
        scores.append((gradient * states).sum(-1)[0].detach() / logits[position, index].detach())
    return torch.stack(scores).numpy()


def replies(rounds: int, quick: bool) -> list[Row]:
    """AttnLRP for all tokens of a reply, beside what others do for as many."""
    table_rows = []
    for (blocks, count), goal in REPLIES.items():
        subject = load(blocks, quick)
        prompt = " ".join(["a" + " a" * ((60 if quick else 512) // 8 - 3) + "."] * 8)
        reply = torch.randint(10, 300, (count,), generator=torch.Generator().manual_seed(0)).tolist()
        read = prompts.read_prompt(subject, sources.parse_prompt(prompt, ()), None, None)
        ids = torch.tensor([prompts.with_reply(subject, read, reply).row.ids])
        model, token = subject.model.requires_grad_(False), subject.tokenizer

        def forward(model=model, ids=ids, count=count):
            with torch.no_grad():
                model(ids, use_cache=False, logits_to_keep=count + 1)

        def ours(method, subject=subject, prompt=prompt, reply=reply, **settings):
            explain = nbsal.Explainer(subject, method, **settings)
            return lambda: explain.reply(prompt, reply, check=False, progress=False)

        def captum(model=model, token=token, prompt=prompt, reply=reply):
            method = LLMGradientAttribution(LayerGradientXActivation(model, model.model.embed_tokens), token)
            method.attribute(TextTokenInput(prompt, token), target=torch.tensor(reply))

        peer = lambda model=model, ids=ids, reply=reply: lxt_scores(model, ids, reply)  # noqa: E731
        works = {"default": ours("attn-lrp"), "float32": ours("attn-lrp", dtype="model"), "LXT": peer, "captum": captum}
        first, second = works["default"]().scores, peer()
        difference = (np.abs(first - second).max(1) / np.abs(second).max(1)).max()
        costs = in_forwards(works, forward, rounds)
        name = f"attn-lrp, {ids.shape[1] - count} + {count} tokens, {blocks} blocks"
        agree = f"largest difference from the rules of LXT: {difference:.1e} of a row's largest score"
        table_rows += [
            cost(name, costs["default"], UNIT, goal, ratio=agree),
            cost('  dtype="model"', costs["float32"], UNIT, goal),
            cost("  the rules of LXT, one graph, token by token", costs["LXT"], UNIT),
            cost("  captum's gradient times input", costs["captum"], UNIT),
        ]
    return table_rows


def encoder(batch: int, length: int, goals: dict[str, float], rounds: int) -> list[Row]:
    """Methods on a batch of bert-base."""
    gc.collect()  # of a model before, whose converted weights would leave no room for those of this one
    subject = random_bert()
    encoded = rows(batch, length, subject.model.config.vocab_size)
    ids = encoded.input_ids

    def forward():
        with torch.no_grad():
            subject.model(**subject.inputs(encoded))

    explainers = {name: nbsal.Explainer(subject, name) for name in goals}
    works = {
        name: lambda explain=explain: explain.explain_encoded(encoded, [None] * batch)
        for name, explain in explainers.items()
    }
    for work in works.values():
        work()  # the first call takes longer
    costs = in_forwards(works, forward, rounds)
    return [cost(f"{name}, {batch} x {ids.shape[1]} tokens", costs[name], UNIT, goal) for name, goal in goals.items()]


def long_texts(rounds: int, quick: bool) -> list[Row]:
    """Transformer attribution of long texts, each in a process of its own."""
    table_rows = []
    for tokens in (256,) if quick else LONG:
        name, work = "transformer-attribution", partial(growth.in_forwards, dtype="mixed")
        measured = [alone(work, name, "modernbert", tokens, start=growth.START) for _ in range(rounds)]
        forwards, megabytes = zip(*measured, strict=True)
        table_rows.append(cost(f"{name}, {tokens:,} tokens, ModernBERT", forwards, UNIT, 7))
        table_rows.append(cost("  memory growth", megabytes, "MB", 1000, digits=0))
    return table_rows


def captum_path(subject, texts: Sequence[str], at_once: int):
    """The scores of some texts by captum's integrated gradients, from padding."""
    model, reader = subject.model, subject.tokenizer
    forward = lambda ids, mask: model(input_ids=ids, attention_mask=mask).logits  # noqa: E731
    inputs = reader(list(texts), padding=True, return_tensors="pt", return_special_tokens_mask=True)
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    options = {"n_steps": STEPS, "internal_batch_size": at_once, "additional_forward_args": mask}
    baseline = ids.where(inputs["special_tokens_mask"].bool(), reader.pad_token_id)
    method = LayerIntegratedGradients(forward, model.bert.embeddings)
    scores = method.attribute(ids, baseline, target=forward(ids, mask).argmax(-1), **options).sum(-1).detach()
    return [row[positions].numpy() for row, positions in zip(scores, mask.bool(), strict=True)]


def paths(rounds: int, quick: bool) -> list[Row]:
    """Integrated gradients beside captum, which has all texts in a batch, or each by itself without padding."""
    subject = nbsal.load("demo/reviews")
    texts = nbsal.data.load("samples/reviews")["text"].tolist()[: 2 if quick else 6]
    inputs = subject.inputs(subject.encode(texts))
    explain = nbsal.Explainer(subject, nbsal.Integrated(steps=STEPS, baseline="pad"))

    def forward():
        with torch.no_grad():
            subject.model(**inputs)

    works = {
        "ours": lambda: [saliency.scores for saliency in explain.map(texts, progress=False)],
        "one batch": lambda: captum_path(subject, texts, 64),
        "each text by itself": lambda: [captum_path(subject, [text], STEPS)[0] for text in texts],
    }
    pairs = zip(works["ours"](), works["each text by itself"](), strict=True)
    difference = max(float(np.abs(own - theirs).max() / np.abs(theirs).max()) for own, theirs in pairs)
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        quickest = dict.fromkeys(works, float("inf"))
        for _, (name, work) in product(range(REPEATS), works.items()):
            quickest[name] = min(quickest[name], cpu(work))
        for name, least in quickest.items():
            seconds[name].append(least)
    unit = min(cpu(forward) for _ in range(10))
    costs = {name: [each / unit for each in values] for name, values in seconds.items()}
    work = f"integrated gradients, {STEPS} steps, {len(texts)} reviews, captum with"
    table_rows = []
    for way in ("one batch", "each text by itself"):
        gain = [theirs / own for theirs, own in zip(costs[way], costs["ours"], strict=True)]
        ours, peer = (f"{spread(costs[name], 1)} {UNIT}" for name in ("ours", way))
        table_rows.append(Row(f"{work} {way}", ours, peer, ratio=spread(gain), **at_least(1, gain)))
    return [*table_rows, Row("  largest difference from captum, of a text's largest score", f"{difference:.1e}")]


def shared(rounds: int, quick: bool) -> list[Row]:
    """Many methods on one trace of a batch of bert-base, beside a trace for each."""
    subject = random_bert(lm=True)
    batch, length = (2, 16) if quick else (16, 64)
    encoded = rows(batch, length, subject.model.config.vocab_size)
    explainers = [nbsal.Explainer(subject, name, **settings) for name, settings in SHARED]

    def forward():
        with torch.no_grad():
            subject.model(**subject.inputs(encoded))

    def trace_for(members):
        needs = frozenset().union(*(explain.method.needs for explain in members))
        layers = set().union(*(explain.method.layers(subject.depth) for explain in members))
        recorded = trace.record(subject, encoded, None, needs, layers)
        for explain in members:
            explain.from_trace(recorded)

    works = {"one": lambda: trace_for(explainers), "each": lambda: [trace_for([explain]) for explain in explainers]}
    costs = in_forwards(works, forward, rounds)
    flops = products(subject, [length] * batch, 0)
    decoding = head_products(subject, batch * length)  # three methods decode one layer and share its features
    ratios = [each / one for each, one in zip(costs["each"], costs["one"], strict=True)]
    cells = {"peer": f"a trace for each: {spread(costs['each'])} {UNIT}", "ratio": spread(ratios)}
    floor = f"{(sum(flops) + decoding) / flops[0]:.2f} {UNIT}"
    return [
        cost(f"{len(SHARED)} methods on one trace, {batch} x {length} tokens", costs["one"], UNIT, floor=floor, **cells)
    ]


def results(rounds: int = 3, quick: bool = False, only: Sequence[str] = PARTS) -> list[Row]:
    """The costs of replies, of a batch, of one text, of long texts, of paths and of a shared trace."""
    torch.set_num_threads(1)
    batch = {"transformer-attribution": 5.4, "attn-lrp": 2.2}
    works = {
        "replies": lambda: replies(rounds, quick),
        "batch": lambda: encoder(*((2, 16) if quick else (8, 64)), batch, rounds),
        "text": lambda: encoder(1, 24, {"transformer-attribution": 4.5, "attn-lrp": 3}, rounds),
        "long": lambda: long_texts(rounds, quick),
        "paths": lambda: paths(rounds, quick),
        "shared": lambda: shared(rounds, quick),
    }
    return [row for name in only for row in works[name]()]


if __name__ == "__main__":
    table.main(results, __doc__, only={"nargs": "*", "default": PARTS, "choices": PARTS, "metavar": "PART"})
