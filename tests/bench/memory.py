"""Peak memory and time of methods that read pairs of positions, on long texts: `python -m tests.bench.memory`.

A random BERT of 12 blocks, 2 heads and width 128, one text, one thread, CPU time. Each measurement runs in a process of
its own, after a short text has been explained: growth is the peak of its resident memory beyond what it held then. To
compare with other code, run this file with that code first in PYTHONPATH.
"""

import multiprocessing
import re
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
import transformers

import nbsal
from tests.bench.table import Row, at_most, markdown, missing, parser

LENGTHS = (512, 1024, 2048, 4096)
METHODS = ("rollout", "gae", "lrp", "transformer-attribution", "attn-lrp")
GOALS = {("lrp", 2048): 0.5, ("gae", 2048): 0.25, ("transformer-attribution", 2048): 0.5}  # GB


def measure(method: str, length: int) -> tuple[float, float, str]:
    """Peak growth in GB, seconds of one explanation, and its precision."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "num_hidden_layers": 12, "num_attention_heads": 2, "intermediate_size": 512}
    config = transformers.BertConfig(vocab_size=1000, max_position_embeddings=max(LENGTHS), **sizes)
    explain = nbsal.Explainer(nbsal.load(transformers.BertForSequenceClassification(config).eval()), method)
    ids = torch.randint(5, 1000, (length,)).tolist()
    explain.ids(ids[:16])
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before, start = resident("VmRSS"), time.process_time()
    saliency = explain.ids(ids)
    seconds = time.process_time() - start
    return (resident("VmHWM") - before) / 1e6, seconds, saliency.provenance["dtype"]


def resident(name: str) -> int:
    """An entry of this process's status, in kB."""
    entry = re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert entry is not None
    return int(entry[1])


def measure_alone(method: str, length: int, rounds: int = 1) -> tuple[float, float, str]:
    """The median growth and the least time of some rounds, each in a process of its own."""
    results = []
    for _ in range(rounds):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            results.append(process.submit(measure, method, length).result())
    growth, seconds, dtypes = zip(*results, strict=True)
    return sorted(growth)[len(growth) // 2], min(seconds), dtypes[0]


def results(rounds: int = 1, quick: bool = False) -> list[Row]:
    """A row for each method and length."""
    rows = []
    for method in METHODS:
        for length in LENGTHS[:1] if quick else LENGTHS:
            try:
                growth, seconds, dtype = measure_alone(method, length, rounds)
            except Exception as error:  # killed for memory, for example: the others should still run
                rows.append(missing(f"{method}, {length} tokens", f"{type(error).__name__}"))
                continue
            goal = at_most(GOALS[method, length], growth, " GB") if (method, length) in GOALS else {}
            work = f"{method}, {dtype}, {length} tokens"
            rows.append(Row(work, ours=f"{1000 * growth:,.0f} MB, {seconds:.1f} s", **goal))
            print(rows[-1].work, rows[-1].ours, flush=True)
    return rows


def main() -> None:
    options = parser(".memory", __doc__).parse_args()
    print(markdown(results(options.rounds, options.quick)))


if __name__ == "__main__":
    main()
