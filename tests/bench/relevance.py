"""What relevance costs, in forwards of the same model: `python -m tests.bench.relevance`.

A random bert-base, 16 texts of 64 tokens, one thread, CPU time. Transformer attribution in a batch beside the same one
by one; in the model's precision and in float64; and a dozen methods on one shared trace beside each on its own.
"""

import argparse
import statistics

import torch
import transformers

import nbsal
from nbsal import trace
from nbsal.encoding import Encoded
from nbsal.methods import catalogue
from tests.bench.decoding import cpu, rows

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
    return explain.read(trace.record(explain.reader, encoded, None, explain.method.needs, set()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.relevance", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = transformers.BertConfig()
    model = transformers.BertForSequenceClassification(config).eval()
    subject = nbsal.load(model, lm=transformers.BertForMaskedLM(config).eval())
    encoded = rows(16, 64, config.vocab_size)
    singles = [Encoded([row], 0) for row in encoded]
    methods = {name: catalogue.create(kind, **settings) for name, (kind, settings) in SHARED.items()}
    explainers = {name: nbsal.Explainer(subject, method) for name, method in methods.items()}

    def forward():
        with torch.no_grad():
            model(**subject.inputs(encoded))

    def together():
        needs = frozenset().union(*(e.method.needs for e in explainers.values()))
        layers = set().union(*(e.method.layers(subject.depth) for e in explainers.values()))
        read = trace.record(subject, encoded, None, needs, layers)
        for explain in explainers.values():
            explain.read(read)

    def apart():
        for explain in explainers.values():
            layers = explain.method.layers(subject.depth)
            explain.read(trace.record(subject, encoded, None, explain.method.needs, layers))

    works = {
        "attribution, batch, float32": lambda: attribute(subject, encoded, "model"),
        "attribution, one by one, float32": lambda: [attribute(subject, one, "model") for one in singles],
        "attribution, batch, float64": lambda: attribute(subject, encoded, "float64"),
        f"{len(SHARED)} methods, one trace": together,
        f"{len(SHARED)} methods, each its own": apart,
    }
    forward()
    forwards = {name: [] for name in works}
    for _ in range(options.rounds):
        for name, work in works.items():
            unit = min(cpu(forward), cpu(forward))
            forwards[name].append(cpu(work) / unit)
    print(f"16 x 64 tokens, in float32 forwards: median of {options.rounds} rounds, range")
    for name, found in forwards.items():
        print(f"  {name:34} {statistics.median(found):6.2f}  ({min(found):.2f} to {max(found):.2f})")
    batch, single = (forwards[f"attribution, {kind}, float32"] for kind in ("batch", "one by one"))
    ratios = [b / a for a, b in zip(batch, single, strict=True)]
    print(f"  one by one / batch: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
