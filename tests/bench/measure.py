"""How benchmarks measure: seconds of CPU, and what the arithmetic alone would be."""

import time


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
