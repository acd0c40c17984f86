"""The memory that explaining a reply takes beside the estimate of it: `python -m tests.bench memory`.

A method for each way of estimating, on random Llamas of the shape of SmolLM2 with six blocks, in a process of its own:
the growth of its resident memory beyond what it held after a first small run. `python -m tests.bench.memory --only
large` prints what SmolLM2 and a model of 7 billion weights need for a prompt of 4,200 tokens, by the same arithmetic.
"""

import copy
import gc
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import torch
import transformers

import nbsal
from nbsal.methods import catalogue
from nbsal.passes import reply_memory
from nbsal.passes.reply_memory import Sizes, needed
from nbsal.support.errors import NbsalError
from tests.answers.writers import tokenizer
from tests.bench import table
from tests.bench.measure import alone, grown
from tests.bench.table import Row, missing

FACTOR = 1.5
TOKENS, REPLY, BLOCKS = (500, 1000), 6, 6
SMOLLM2 = {"hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3}
LARGE = {  # the sizes of models, and the numbers of a block's weights
    "SmolLM2-135M": Sizes(blocks=30, width=576, inner=1536, heads=9, vocabulary=49_152, itemsize=4),
    "7B": Sizes(blocks=32, width=4096, inner=11_008, heads=32, vocabulary=32_000, itemsize=2),
}
MACHINE, PROMPT, WRITTEN = 24, 4200, 128  # GB, and tokens
MB, GB = 10**6, 10**9
SETTINGS = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "1000000"}  # freed memory returns to the system


def load(blocks: int, dtype: str) -> nbsal.Subject:
    """A random Llama of that shape."""
    torch.manual_seed(0)
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    sizes = SMOLLM2 | special | {"num_hidden_layers": blocks, "max_position_embeddings": 8192}
    config = transformers.LlamaConfig(vocab_size=49_152, **sizes)
    reader = copy.deepcopy(tokenizer(None))
    reader.model_max_length = 8192
    return nbsal.load(transformers.LlamaForCausalLM(config).eval().to(getattr(torch, dtype)), tokenizer=reader)


def peaks(name: str, dtype: str, lengths: Sequence[int], blocks: int) -> list[tuple[float, float]]:
    """The measured and the estimated MB of the replies to prompts of so many tokens."""
    torch.set_num_threads(1)
    subject = load(blocks, dtype)
    explain = nbsal.Explainer(subject, name)

    def run(tokens: int) -> None:
        prompt = " ".join(["a" + " a" * (tokens // 8 - 3) + "."] * 8)
        reply = torch.randint(10, 300, (REPLY,), generator=torch.Generator().manual_seed(0)).tolist()
        alone = None if explain.method.shares else 1  # batches are halved where they do not fit
        explain.reply(prompt, reply, progress=False, check=False, batch_size=alone)

    run(40)
    sizes, results = reply_memory.sizes_of(explain.method_subject), []
    for tokens in lengths:
        gc.collect()
        _, growth = grown(lambda: run(tokens))  # noqa: B023
        results.append((growth, needed(explain.method, sizes, tokens + REPLY, REPLY) / MB))
    return results


@cache
def methods(dtype: str) -> dict[str, nbsal.Explainer]:
    """The methods that explain replies of decoders, by name."""
    subject, result = load(1, dtype), {}
    for name in catalogue.names():
        if "@" in name:  # as authors' programs run it
            continue
        try:
            result[name] = nbsal.Explainer(subject, name)
        except NbsalError:  # reads encoders, or needs a head mask
            continue
    return result


def distinct(dtype: str) -> list[str]:
    """A method for each way in which memory is estimated: the first of those that get the same estimate."""
    names: dict[int, str] = {}
    for name, explain in methods(dtype).items():
        sizes = replace(reply_memory.sizes_of(explain.method_subject), blocks=BLOCKS)
        names.setdefault(needed(explain.method, sizes, TOKENS[-1], REPLY), name)
    return list(names.values())


def measured(rounds: int, quick: bool) -> list[Row]:
    """The peaks beside their estimates."""
    os.environ |= SETTINGS
    rows = []
    lengths = TOKENS[: 1 if quick else 2]
    kinds = [(name, "float32") for name in distinct("float32")] + [("attn-lrp", "bfloat16"), ("gae", "bfloat16")]
    for name, dtype in kinds:
        work = f"{name}, {dtype}, {{}} + {REPLY} tokens, {BLOCKS} blocks"
        try:
            pairs = alone(peaks, name, dtype, lengths, BLOCKS)
        except Exception as error:  # any error: the other methods should still run
            rows.append(missing(work.format("-"), f"{type(error).__name__}: {error}"))
            continue
        for tokens, (ours, estimate) in zip(lengths, pairs, strict=True):
            ratio = estimate / max(ours, 1)
            goal = {"goal": f"{1 / FACTOR:.2f} to {FACTOR}", "met": "yes" if 1 / FACTOR <= ratio <= FACTOR else "no"}
            floor = f"estimate {estimate:,.0f} MB"
            rows.append(Row(work.format(tokens), f"{ours:,.0f} MB", floor=floor, ratio=f"{ratio:.2f}", **goal))
            print(table.line(rows[-1]), flush=True)
    return rows


def large() -> list[Row]:
    """What large models leave room for: SmolLM2 in float32, and 7 billion weights in bfloat16."""
    rows = []
    for model, own in LARGE.items():
        block = 4 * own.width**2 + 3 * own.width * own.inner
        weights = (own.blocks * block + 2 * own.vocabulary * own.width) * own.itemsize
        for name, explain in methods("float32" if own.itemsize == 4 else "bfloat16").items():
            subject = explain.method_subject
            sizes = own.computing(subject.dtype.itemsize, block)
            sizes = replace(sizes, fused=reply_memory.sizes_of(subject).fused)
            size = needed(explain.method, sizes, PROMPT + WRITTEN, WRITTEN)
            runs = "runs" if size + weights <= MACHINE * GB else "is refused"
            work = f"{name}, {model}, {PROMPT:,} + {WRITTEN} tokens, {MACHINE} GB"
            rows.append(Row(work, floor=f"estimate {size / GB:.1f} GB", ratio=runs))
    return rows


def results(rounds: int = 1, quick: bool = False, only: str = "") -> list[Row]:
    """The peaks, and the arithmetic of a large model."""
    return ([] if only == "large" else measured(rounds, quick)) + ([] if only == "peaks" else large())


if __name__ == "__main__":
    table.main(results, __doc__, only={"choices": ["peaks", "large"], "default": ""})
