"""The cost of relevance methods, in forward passes of the same model: `python -m tests.bench.relevance`.

A random bert-base on 16 texts of 64 tokens, one thread, CPU time. Transformer attribution of a batch is compared with
one text at a time, in the model's precision and in float64; and many methods on one shared trace are compared with one
trace for each.
"""

import torch
import transformers

import nbsal
from nbsal import trace
from nbsal.methods import catalogue
from nbsal.model.tokens import Encoded
from tests.bench.decoding import measure_in_turn, rows
from tests.bench.measure import head_products, products
from tests.bench.table import Row, at_least, at_most, markdown, parser, spread

SHARED = {
    "gradcam 0": ("gradcam", {"layer": 0}),
    "gradcam 7": ("gradcam", {"layer": 7}),
    "simple 0": ("simple", {"layer": 0}),
    "simple 7": ("simple", {"layer": 7}),
    "gradxact 0": ("gradxact", {"layer": 0}),
    "gradxact 7": ("gradxact", {"layer": 7}),
    "raw-attention": ("raw-attention", {}),
    "rollout": ("rollout", {}),
    "attention-cam": ("attention-cam", {}),
    "attention-gradcam": ("attention-gradcam", {}),
    "attcat": ("attcat", {}),
    "gae": ("gae", {}),
    "decoded-gradcam 7": ("decoded-gradcam", {"layer": 7}),
    "decoded-simple 7": ("decoded-simple", {"layer": 7, "coarse": False}),
    "decoded-gradxact 7": ("decoded-gradxact", {"layer": 7}),
}


def attribute(subject, encoded, dtype):
    """Transformer attribution of a batch."""
    explain = nbsal.Explainer(subject, "transformer-attribution", dtype=dtype)
    return explain.from_trace(trace.record(explain.method_subject, encoded, None, explain.method.needs, set()))


def results(rounds: int = 3, quick: bool = False) -> list[Row]:
    """The cost of attribution for a batch and one by one, and of many methods with shared and with separate traces."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    batch, length = (2, 16) if quick else (16, 64)
    config = transformers.BertConfig()
    model = transformers.BertForSequenceClassification(config).eval()
    subject = nbsal.load(model, lm=transformers.BertForMaskedLM(config).eval())
    encoded = rows(batch, length, config.vocab_size)
    singles = [Encoded([row], 0) for row in encoded]
    methods = {name: catalogue.create(kind, **settings) for name, (kind, settings) in SHARED.items()}
    explainers = {name: nbsal.Explainer(subject, method) for name, method in methods.items()}

    def forward():
        with torch.no_grad():
            model(**subject.inputs(encoded))

    def shared_trace():
        needs = frozenset().union(*(e.method.needs for e in explainers.values()))
        layers = set().union(*(e.method.layers(subject.depth) for e in explainers.values()))
        shared = trace.record(subject, encoded, None, needs, layers)
        for explain in explainers.values():
            explain.from_trace(shared)

    def separate_traces():
        for explain in explainers.values():
            layers = explain.method.layers(subject.depth)
            explain.from_trace(trace.record(subject, encoded, None, explain.method.needs, layers))

    works = {
        "batch": lambda: attribute(subject, encoded, "model"),
        "one by one": lambda: [attribute(subject, single, "model") for single in singles],
        "batch, mixed": lambda: attribute(subject, encoded, "mixed"),
        "batch, float64": lambda: attribute(subject, encoded, "float64"),
        "one trace": shared_trace,
        "separate traces": separate_traces,
    }
    forwards = measure_in_turn(works, forward, rounds)
    size = f"{batch} x {length} tokens"
    print(f"{size}, in float32 forward passes: median of {rounds} rounds, range")
    for name, costs in forwards.items():
        kind = f"{len(SHARED)} methods" if name in ("one trace", "separate traces") else "attribution"
        print(f"  {kind + ', ' + name:34} {spread(costs)}")
    forward_flops, backward_flops = products(subject, [length] * batch, 0)
    decoding_flops = head_products(subject, batch * length)  # three methods decode one layer and share its features
    return [
        Row(
            f"transformer attribution, {size}, float32",
            ours=f"{spread(forwards['batch'])} forward passes",
            peer=f"the same one by one: {spread(forwards['one by one'])} forward passes",
            ratio=spread(_ratios(forwards, "one by one", "batch")),
            **at_least(1.4, _ratios(forwards, "one by one", "batch")),
        ),
        Row(
            "  in total",
            ours=f"{spread(forwards['batch'])} forward passes",
            **at_most(6.5, forwards["batch"], " forward passes"),
        ),
        Row(
            "  in mixed precision, the default",
            ours=f"{spread(forwards['batch, mixed'])} forward passes",
            **at_most(5.0, forwards["batch, mixed"], " forward passes"),
        ),
        Row("  in float64", ours=f"{spread(forwards['batch, float64'])} forward passes"),
        Row(
            f"{len(SHARED)} methods on one trace, {size}",
            ours=f"{spread(forwards['one trace'])} forward passes",
            peer=f"separate traces: {spread(forwards['separate traces'])} forward passes",
            floor=f"{(forward_flops + backward_flops + decoding_flops) / forward_flops:.2f} forward passes",
            ratio=spread(_ratios(forwards, "separate traces", "one trace")),
            **at_most(1.7, forwards["one trace"], " forward passes"),
        ),
    ]


def _ratios(forwards, theirs, ours):
    """Ratios of their cost to ours, one per round."""
    return [a / b for a, b in zip(forwards[theirs], forwards[ours], strict=True)]


def main() -> None:
    options = parser(".relevance", __doc__).parse_args()
    print(markdown(results(options.rounds, options.quick)))


if __name__ == "__main__":
    main()
