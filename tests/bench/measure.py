"""Measurements of benchmarks: CPU time, the arithmetic operations required, and runs in a process of their own."""

import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from importlib import import_module

from tests.bench.table import Row, missing


def cpu(work) -> float:
    """Seconds of CPU time of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


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


def run(name: str, rounds: int, quick: bool) -> list[Row]:
    """The rows of one benchmark."""
    with redirect_stdout(sys.stderr):
        rows: list[Row] = import_module(f"tests.bench.{name}").results(rounds, quick)
        return rows


def run_alone(name: str, rounds: int, quick: bool) -> list[Row]:
    """The rows of one benchmark, run in a new process; if it fails, a row with the error."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        try:
            return process.submit(run, name, rounds, quick).result()
        except Exception as error:  # any error: the other benchmarks should still run
            return [missing(name, f"{type(error).__name__}: {error}")]
