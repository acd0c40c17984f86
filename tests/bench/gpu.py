"""Compare a GPU with the CPU: `python -m tests.bench.gpu [--device cuda]`.

Every method of the catalogue must give the same scores for demo/reviews on both; with bfloat16 the order of the tokens
is compared. Then a random roberta-base with its LM head is timed (wall-clock time): a corpus with decoded Grad-CAM at
all layers, both games, and transformer attribution, beside the time for the arithmetic alone at the rate at which the
device multiplies matrices of the model's sizes. Without a GPU a single row says so; `--device cpu` runs it on the CPU.
"""

import tempfile
import time
from collections.abc import Callable, Iterable

import numpy as np
import pandas
import torch
import transformers

import nbsal
from nbsal import corpus, trace
from nbsal.evaluation import games
from nbsal.evaluation._games import coalition_steps
from nbsal.methods import catalogue
from nbsal.samples import base
from tests.bench import corpus as corpus_bench
from tests.bench.decoding import decoded_states, rows
from tests.bench.games import FRACTIONS
from tests.bench.measure import head_products, products
from tests.bench.relevance import attribute
from tests.bench.table import Row, at_least, at_most, markdown, missing, parser, spread

TOLERANCE = 1e-4  # relative to a text's largest score
TEXTS = 8


def results(rounds: int = 3, quick: bool = False, device: str = "cuda") -> list[Row]:
    """All rows, or a single one if there is no GPU."""
    if device == "cuda" and not torch.cuda.is_available():
        return [missing("a GPU compared with the CPU", "torch finds no CUDA device")]
    torch_device = torch.device(device)
    subject = roberta(torch_device, quick)
    rate = matrix_rate(torch_device, subject.model.config)
    name = torch.cuda.get_device_name(torch_device) if torch_device.type == "cuda" else "the CPU"
    print(f"{name}: {rate / 1e12:.2f} TFLOP/s in float32")
    return [
        *methods(torch_device, quick),
        *(half_precision(torch_device) if torch_device.type == "cuda" else ()),
        whole_corpus(subject, rate, 20 if quick else 2000),
        both_games(subject, rate, 4 if quick else 100),
        relevance(subject, rounds, *((2, 16) if quick else (32, 128))),
    ]


def roberta(device: torch.device, quick: bool) -> nbsal.Subject:
    """A random classifier of roberta-base's size with an LM head, and the tokenizer of the embedded models."""
    torch.manual_seed(0)
    tokenizer = base.tokenizer()
    sizes = {"num_hidden_layers": 2} if quick else {}
    config = transformers.RobertaConfig(
        vocab_size=50265, max_position_embeddings=514, pad_token_id=tokenizer.pad_token_id, **sizes
    )
    model = transformers.RobertaForSequenceClassification(config).eval()
    lm = transformers.RobertaForMaskedLM(config).eval()
    return nbsal.load(model.to(device), lm=lm.to(device), tokenizer=tokenizer)


def clock(work: Callable[[], object], device: torch.device) -> float:
    """Wall-clock seconds until the device has finished the work."""
    _wait(device)
    start = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def matrix_rate(device: torch.device, config, times: int = 20) -> float:
    """Floating-point operations per second in a matrix product of the model's sizes."""
    left = torch.randn(8192, config.hidden_size, device=device)
    right = torch.randn(config.hidden_size, config.intermediate_size, device=device)
    torch.mm(left, right)
    seconds = clock(lambda: [torch.mm(left, right) for _ in range(times)], device)
    return times * 2 * left.numel() * right.shape[1] / seconds


def methods(device: torch.device, quick: bool) -> Iterable[Row]:
    """The difference of each method's scores from those on the CPU, relative to a text's largest score."""
    subjects = [nbsal.load("demo/reviews", device=name) for name in ("cpu", device)]
    texts = nbsal.data.load("samples/reviews")["text"].tolist()[: 2 if quick else TEXTS]
    names = catalogue.names()[:: 8 if quick else 1]
    differences = {name: _difference(name, subjects, texts) for name in names}
    failed = {name: d for name, d in differences.items() if isinstance(d, str) or not d <= TOLERANCE}
    largest = max((d for d in differences.values() if not isinstance(d, str)), default=float("nan"))
    passed = len(names) - len(failed)
    failures = "".join(f"; {name}: {d if isinstance(d, str) else f'{d:.1e}'}" for name, d in failed.items())
    yield Row(
        f"{len(names)} methods on {len(texts)} reviews, largest difference from the scores on the CPU",
        ours=f"{largest:.1e}, {passed} of {len(names)} within {TOLERANCE:g}{failures}",
        **at_least(len(names), passed, " methods"),
    )


def _difference(name: str, subjects: list[nbsal.Subject], texts: list[str]) -> float | str:
    """The largest relative difference between two subjects' scores, or the text of an error."""
    try:
        both = [nbsal.Explainer(subject, name).map(texts, progress=False) for subject in subjects]
    except Exception as error:  # any error: the other methods can still be compared
        return f"{type(error).__name__}: {error}"
    return max(
        float(np.abs(first.scores - second.scores).max() / max(np.abs(first.scores).max(), 1e-30))
        for first, second in zip(*both, strict=True)
    )


def half_precision(device: torch.device) -> Iterable[Row]:
    """Rank agreement of content tokens between bfloat16 and float32."""
    full, half = (nbsal.load("demo/reviews", device=device, dtype=dtype) for dtype in ("float32", "bfloat16"))
    texts = nbsal.data.load("samples/reviews")["text"].tolist()
    for name in ("gradcam", "gradxact", "decoded-gradcam", "attcat"):
        both = [nbsal.Explainer(subject, name).map(texts, progress=False) for subject in (full, half)]
        ranks = [
            pandas.Series(first.scores[~first.special]).corr(pandas.Series(second.scores[~second.special]), "spearman")
            for first, second in zip(*both, strict=True)
        ]
        yield Row(f"  {name} in bfloat16, Spearman with float32", ours=spread(ranks))


def whole_corpus(subject: nbsal.Subject, rate: float, count: int) -> Row:
    """Tokens per second of decoded Grad-CAM at all layers."""
    layers = {f"layer {at}": nbsal.Explainer(subject, "decoded-gradcam", layer=at) for at in range(subject.depth + 1)}
    many = corpus_bench.texts(count, 20, 200)
    methods = {name: explainer.method for name, explainer in layers.items()}
    nbsal.compare(subject, methods, many[:TEXTS], progress=False)  # warm-up
    lengths = [len(row) for row in subject.encode(many)]
    with tempfile.TemporaryDirectory() as out:
        seconds = clock(lambda: corpus.explain(layers, many, f"{out}/explained", progress=False), subject.device)
    sample = trace.record(subject, subject.encode(many[:TEXTS]))
    share = decoded_states(sample, subject.depth) / sum(lengths[:TEXTS])
    arithmetic = (sum(products(subject, lengths, 0)) + head_products(subject, share * sum(lengths))) / rate
    return Row(
        f"a corpus of {count:,} texts of 20 to 200 tokens, decoded Grad-CAM at {len(layers)} layers, tokens per second",
        ours=f"{sum(lengths) / seconds:,.0f}",
        floor=f"{sum(lengths) / arithmetic:,.0f} (arithmetic)",
        ratio=f"{arithmetic / seconds:.0%} of the floor's speed",
    )


def both_games(subject: nbsal.Subject, rate: float, count: int) -> Row:
    """Seconds of both games with one method, including its explanations."""
    explain, many = nbsal.Explainer(subject, "gradcam", layer=0), corpus_bench.texts(count, 20, 100)
    saliencies = explain.map(many, progress=False)
    coalitions = [np.unique(np.array(coalition_steps(s.row, s.order, FRACTIONS), bool), axis=0) for s in saliencies]
    forward = products(subject, [int(c.sum()) for steps in coalitions for c in steps], 0)[0]
    arithmetic = (forward + sum(products(subject, [len(s.row) for s in saliencies], 0))) / rate
    play = lambda: games(explain, many, fractions=FRACTIONS, random=0, progress=False)  # noqa: E731
    seconds = clock(play, subject.device)
    return Row(
        f"one method, both games, {count} texts of 20 to 100 tokens",
        ours=f"{seconds:.2f} s",
        floor=f"{arithmetic:.2f} s (arithmetic)",
        ratio=f"{arithmetic / seconds:.0%} of the floor's speed",
    )


def relevance(subject: nbsal.Subject, rounds: int, batch: int, length: int) -> Row:
    """The cost of transformer attribution in the model's precision and in float64, in forward passes."""
    encoded = rows(batch, length, subject.model.config.vocab_size)

    @torch.inference_mode()
    def forward() -> None:
        subject.model(**subject.inputs(encoded))

    costs = {"model": [], "float64": []}
    for dtype, ratios in costs.items():
        attribute(subject, encoded, dtype)  # warm-up
        for _ in range(rounds):
            ratios.append(
                clock(lambda dtype=dtype: attribute(subject, encoded, dtype), subject.device)
                / clock(forward, subject.device)
            )
    return Row(
        f"transformer attribution, {batch} x {length} tokens",
        ours=f"{spread(costs['model'])} forward passes, in float64 {spread(costs['float64'])}",
        **at_most(6.5, costs["model"], " forward passes"),
    )


def main() -> None:
    arguments = parser(".gpu", __doc__)
    arguments.add_argument("--device", default="cuda")
    options = arguments.parse_args()
    print(markdown(results(options.rounds, options.quick, options.device)))


if __name__ == "__main__":
    main()
