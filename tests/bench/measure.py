"""How benchmarks measure: seconds of CPU, what the arithmetic alone would be, and each in a process of its own."""

import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from importlib import import_module

from tests.bench.table import Row, missing


def cpu(work) -> float:
    """Seconds of this process's CPU."""
    start = time.process_time()
    work()
    return time.process_time() - start


def products(subject, lengths, layer):
    """Floating-point operations of the forward, and of the backward to the layer: linear maps and attention."""
    config, depth = subject.model.config, subject.depth
    width, inner = config.hidden_size, config.intermediate_size
    linear = 2 * sum(lengths) * (4 * width**2 + 2 * width * inner)
    attention = 2 * sum(length**2 for length in lengths) * 2 * width
    return depth * (linear + attention), (depth - layer) * (linear + 2 * attention)  # an attention has two gradients


def head_products(subject, rows):
    """Floating-point operations of the LM head on that many hidden states: its transform, and every word's logit."""
    config = subject.model.config
    return 2 * rows * config.hidden_size * (config.hidden_size + config.vocab_size)


def told(name: str, rounds: int, quick: bool) -> list[Row]:
    """The rows of one benchmark."""
    with redirect_stdout(sys.stderr):
        rows: list[Row] = import_module(f"tests.bench.{name}").results(rounds, quick)
        return rows


def alone(name: str, rounds: int, quick: bool) -> list[Row]:
    """The rows of one benchmark, run in a fresh process; or a row of why there are none."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        try:
            return process.submit(told, name, rounds, quick).result()
        except Exception as error:  # whatever it is, the other benchmarks can be run
            return [missing(name, f"{type(error).__name__}: {error}")]
