"""The cost of relevance methods, in forward passes of the same model: `python -m tests.bench.relevance`.

A random bert-base on 16 texts of 64 tokens, one thread, CPU time. Transformer attribution of a batch is compared with
one text at a time, in the model's precision and in float64; and many methods on one shared trace are compared with one
trace for each.
"""

import torch

import nbsal
from nbsal.model.text.tokens import Encoded
from nbsal.passes import trace
from tests.bench import table
from tests.bench.decoding import rows
from tests.bench.measure import head_products, in_forwards, products, random_bert
from tests.bench.table import Row, at_least, cost, spread

LAYERED = ("gradcam", "simple", "gradxact")  # at layers 0 and 7, and decoded at layer 7
SHARED = [(name, {"layer": layer}) for name in LAYERED for layer in (0, 7)]
SHARED += [(f"decoded-{name}", {"layer": 7}) for name in LAYERED]
SHARED += [(name, {}) for name in ("raw-attention", "rollout", "attention-cam", "attention-gradcam", "attcat", "gae")]


def attribute(subject, encoded, dtype):
    """Transformer attribution of a batch."""
    explain = nbsal.Explainer(subject, "transformer-attribution", dtype=dtype)
    return explain.from_trace(trace.record(explain.method_subject, encoded, None, explain.method.needs, set()))


def results(rounds: int = 3, quick: bool = False) -> list[Row]:
    """The cost of attribution for a batch and one by one, and of many methods with shared and with separate traces."""
    torch.set_num_threads(1)
    batch, length = (2, 16) if quick else (16, 64)
    subject = random_bert(lm=True)
    encoded = rows(batch, length, subject.model.config.vocab_size)
    explainers = [nbsal.Explainer(subject, name, **settings) for name, settings in SHARED]

    def forward():
        with torch.no_grad():
            subject.model(**subject.inputs(encoded))

    def one_by_one():
        for row in encoded:
            attribute(subject, Encoded([row], 0), "model")

    def trace_for(members):
        needs = frozenset().union(*(explain.method.needs for explain in members))
        layers = set().union(*(explain.method.layers(subject.depth) for explain in members))
        recorded = trace.record(subject, encoded, None, needs, layers)
        for explain in members:
            explain.from_trace(recorded)

    works = {dtype: lambda dtype=dtype: attribute(subject, encoded, dtype) for dtype in ("model", "mixed", "float64")}
    works |= {"one by one": one_by_one, "one trace": lambda: trace_for(explainers)}
    works["separate traces"] = lambda: [trace_for([explain]) for explain in explainers]
    forwards = in_forwards(works, forward, rounds)
    size, unit = f"{batch} x {length} tokens", "forward passes"
    forward_flops, backward_flops = products(subject, [length] * batch, 0)
    decoding_flops = head_products(subject, batch * length)  # three methods decode one layer and share its features
    gain = [alone / together for alone, together in zip(forwards["one by one"], forwards["model"], strict=True)]
    return [
        Row(
            f"transformer attribution, {size}, float32",
            ours=f"{spread(forwards['model'])} {unit}",
            peer=f"the same one by one: {spread(forwards['one by one'])} {unit}",
            ratio=spread(gain),
            **at_least(1.4, gain),
        ),
        cost("  in total", forwards["model"], unit, 6.5),
        cost("  in mixed precision, the default", forwards["mixed"], unit, 5),
        cost("  in float64", forwards["float64"], unit),
        cost(
            f"{len(SHARED)} methods on one trace, {size}",
            forwards["one trace"],
            unit,
            1.7,
            peer=f"separate traces: {spread(forwards['separate traces'])} {unit}",
            floor=f"{(forward_flops + backward_flops + decoding_flops) / forward_flops:.2f} {unit}",
            ratio=spread(
                [many / one for many, one in zip(forwards["separate traces"], forwards["one trace"], strict=True)]
            ),
        ),
    ]


if __name__ == "__main__":
    table.main(results, __doc__)
