"""Measurements of benchmarks: CPU time, memory, arithmetic operations, and runs in a process of their own."""

import multiprocessing
import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import transformers

import nbsal
from nbsal.samples import base
from tests.bench.table import Row, missing


def cpu(work: Callable[[], Any]) -> float:
    """Seconds of CPU time of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def grown(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of CPU time of some work, and by how many MB its peak exceeds what the process held before."""
    reset_peak()
    before = resident("VmRSS")
    return cpu(work), resident("VmHWM") - before


def reset_peak() -> None:
    """Begin to measure this process's peak of memory (VmHWM) anew."""
    Path("/proc/self/clear_refs").write_text("5")


def resident(name: str) -> float:
    """An entry of this process's status, in MB."""
    entry = re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert entry is not None
    return int(entry[1]) / 1000


def in_forwards(works, forward, rounds: int) -> dict[str, list[float]]:
    """The cost of each work in forward passes, one value per round."""
    forward()
    costs = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            unit = min(cpu(forward), cpu(forward))
            costs[name].append(cpu(work) / unit)
    return costs


def products(subject, lengths, layer):
    """Floating-point operations of the forward pass, and of the backward pass to a layer: linear maps and attention."""
    config, depth = subject.model.config, subject.depth
    width, inner = config.hidden_size, config.intermediate_size
    linear = 2 * sum(lengths) * (4 * width**2 + 2 * width * inner)
    attention = 2 * sum(length**2 for length in lengths) * 2 * width
    return depth * (linear + attention), (depth - layer) * (linear + 2 * attention)  # attention has two gradients


def head_products(subject, rows):
    """Floating-point operations of the LM head on some hidden states: its transform, and the logits of all tokens."""
    config = subject.model.config
    return 2 * rows * config.hidden_size * (config.hidden_size + config.vocab_size)


def random_bert(lm: bool = False, tokenizer=None, **sizes) -> nbsal.Subject:
    """A random classifier, bert-base if no sizes are given, with the tokenizer of the embedded models."""
    torch.manual_seed(0)
    config = transformers.BertConfig(**sizes)
    model = transformers.BertForSequenceClassification(config).eval()
    head = transformers.BertForMaskedLM(config).eval() if lm else None
    return nbsal.load(model, lm=head, tokenizer=tokenizer or base.tokenizer())


def alone(function: Callable[..., Any], *arguments: Any, start: str = "spawn") -> Any:
    """The result of a function in a new process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context(start)) as process:
        return process.submit(function, *arguments).result()


def run(name: str, rounds: int, quick: bool) -> list[Row]:
    """The rows of one benchmark."""
    with redirect_stdout(sys.stderr):
        rows: list[Row] = import_module(f"tests.bench.{name}").results(rounds, quick)
        return rows


def run_alone(name: str, rounds: int, quick: bool) -> list[Row]:
    """The rows of one benchmark, run in a new process; if it fails, a row with the error."""
    try:
        rows: list[Row] = alone(run, name, rounds, quick)
    except Exception as error:  # any error: the other benchmarks should still run
        return [missing(name, f"{type(error).__name__}: {error}")]
    return rows
