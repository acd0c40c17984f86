"""What all-layer decoded Grad-CAM costs, in forwards of the same model: `python -m tests.bench.decoding`.

A random bert-base on 16 texts of 64 tokens, one thread, CPU time; ours beside captum asked layer by layer with the full
softmax of the LM head, as its users do. The two run in turn and the ratio of each round is printed.
"""

import argparse
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch
import transformers
from captum.attr import LayerGradientXActivation

import nbsal
from nbsal.encoding import Encoded, Row


def rows(batch: int, length: int, size: int) -> Encoded:
    """Random token ids as texts that fill the batch."""
    ids = torch.randint(1000, size, (batch, length), generator=torch.Generator().manual_seed(0)).tolist()
    flags = {"types": (0,) * length, "segments": (0,) * length, "special": (False,) * length, "mask": (1,) * length}
    tokens, offsets = tuple(map(str, range(length))), tuple((i, i + 1) for i in range(length))
    return Encoded([Row("x" * length, tuple(row), tokens, offsets, **flags) for row in ids], 0)


def captum_layers(model, lm, ids):
    """A captum call and a full softmax for every layer, and the scores of each token through its column."""
    forward = lambda inputs: model(input_ids=inputs).logits  # noqa: E731
    with torch.no_grad():
        hidden = model.bert(input_ids=ids, output_hidden_states=True).hidden_states
        target = model(input_ids=ids).logits.argmax(-1)
    found = []
    layers = [model.bert.embeddings, *model.bert.encoder.layer]
    for layer, states in zip(layers, hidden, strict=True):
        scores = LayerGradientXActivation(forward, layer).attribute(ids, target=target).sum(-1).relu()
        with torch.no_grad():
            found.append([])
            for b, row in enumerate(ids):
                influence = lm.cls(states[b]).softmax(-1)[:, row]
                found[-1].append(influence.T @ scores[b].detach())
    return torch.stack([torch.stack(layer) for layer in found])


def our_layers(subject, encoded, **settings):
    """The same from one trace."""
    method = nbsal.Decoded(nbsal.GradCAM(), **settings).resolve(subject)
    return method.every(nbsal.trace.record(subject, encoded), range(subject.depth + 1))


def cpu(work):
    start = time.process_time()
    work()
    return time.process_time() - start


def peak(work) -> float:
    """How many MB the process grows at most while the work runs, sampled."""
    statm, page = Path("/proc/self/statm"), 4096
    resident = lambda: int(statm.read_text().split()[1]) * page / 1e6  # noqa: E731
    start, seen, done = resident(), [0.0], threading.Event()

    def watch():
        while not done.wait(0.002):
            seen.append(resident() - start)

    watcher = threading.Thread(target=watch)
    watcher.start()
    work()
    done.set()
    watcher.join()
    return max(seen)


def import_times(rounds: int) -> tuple[float, float]:
    """Median seconds of `python -c pass` and of `python -c 'import nbsal'`, run in turn."""
    commands = {name: [sys.executable, "-c", name] for name in ("pass", "import nbsal")}
    seconds = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, check=True)
            seconds[name].append(time.perf_counter() - start)
    return statistics.median(seconds["pass"]), statistics.median(seconds["import nbsal"])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.decoding", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = transformers.BertConfig()
    model = transformers.BertForSequenceClassification(config).eval()
    lm = transformers.BertForMaskedLM(config).eval()
    subject = nbsal.load(model, lm=lm)
    encoded = rows(16, 64, config.vocab_size)
    inputs = subject.inputs(encoded)
    ids = inputs["input_ids"]

    def forward():
        with torch.no_grad():
            model(**inputs)

    works = {
        "captum per layer, full softmax": lambda: captum_layers(model, lm, ids),
        "ours, line 9": lambda: our_layers(subject, encoded),
        "ours, eq. 6": lambda: our_layers(subject, encoded, form="per_token"),
        "ours, line 9, coarse": lambda: our_layers(subject, encoded, coarse=True),
        "ours, trace alone": lambda: nbsal.trace.record(subject, encoded),
    }
    forward()
    truth, ours = works["captum per layer, full softmax"](), works["ours, line 9"]()
    difference = float((truth - ours).abs().max() / truth.abs().max())
    print(f"largest difference between ours and captum: {difference:.1e} of the largest score")
    forwards = {name: [] for name in works}
    for _ in range(options.rounds):
        for name, work in works.items():
            unit = min(cpu(forward), cpu(forward))
            forwards[name].append(cpu(work) / unit)
    print(
        f"all {subject.depth + 1} layers of 16 x 64 tokens, in forwards: median of {options.rounds} rounds, range, peak"
    )
    for name, found in forwards.items():
        middle = statistics.median(found)
        print(f"  {name:32} {middle:6.2f}  ({min(found):.2f} to {max(found):.2f})  {peak(works[name]):7.0f} MB")
    bare, ours = import_times(7)
    print(f"python -c pass {bare:.3f} s, python -c 'import nbsal' {ours:.3f} s, {ours - bare:+.3f} s")


if __name__ == "__main__":
    main()
