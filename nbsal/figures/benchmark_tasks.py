"""The benchmark tables of the papers, with the embedded models and samples that stand in for them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class BenchmarkTask:
    """A benchmark table with its embedded model, the samples that stand in for it, and the sizes of a quick run.

    `texts` is how many texts of the table a quick run takes, `sample_texts` how many of the samples. `remark` says what
    to know of the embedded model on this table.
    """

    title: str
    demo: str
    sample: str
    texts: int
    sample_texts: int
    remark: str = ""


BENCHMARK_TASKS = {
    "sst2": BenchmarkTask("SST-2", "demo/reviews", "samples/reviews", 200, 12),
    "ag_news": BenchmarkTask("AG News", "demo/news", "samples/news", 40, 6),
    "imdb": BenchmarkTask("IMDB", "demo/reviews", "samples/reviews", 16, 8, "trained on SST-2"),
    "yelp_polarity": BenchmarkTask("Yelp", "demo/reviews", "samples/reviews", 30, 8, "trained on SST-2"),
    "mnli": BenchmarkTask("MNLI", "demo/nli", "samples/pairs", 60, 8, "zero-shot from SNLI"),
    "squad": BenchmarkTask(
        "SQuAD v1.1", "demo/answers", "samples/answers", 60, 12,
        "a weak model, trained on only 400 of these questions, some of which may appear here",
    ),
    "qqp": BenchmarkTask("QQP", "", "", 80, 0),
    "squad_v2": BenchmarkTask("SQuAD v2", "", "", 80, 0),
}  # fmt: skip
