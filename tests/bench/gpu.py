"""What a GPU does beside the processor: `python -m tests.bench.gpu [--device cuda]`.

Every method of the catalogue by demo/reviews, there and on the processor, must say the same; in bfloat16 the order of
the tokens is compared. Then a random roberta-base with its LM head: a corpus with decoded Grad-CAM at all layers, both
games, and transformer attribution, on the clock, beside what arithmetic alone takes at the rate at which that device
multiplies matrices of the model's sizes. Without a GPU one row says so; `--device cpu` runs all of it there.
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
from tests.bench import corpus as texts_of
from tests.bench.decoding import needed, rows
from tests.bench.games import FRACTIONS
from tests.bench.measure import head_products, products
from tests.bench.relevance import attribute
from tests.bench.table import Row, at_least, at_most, markdown, missing, parser, spread

ALIKE = 1e-4  # of a text's largest score
SEVERAL = 8


def results(rounds: int = 3, quick: bool = False, device: str = "cuda") -> list[Row]:
    """Every row, or the one that says that there is no such device."""
    if device == "cuda" and not torch.cuda.is_available():
        return [missing("a GPU beside the processor", "torch finds no CUDA device")]
    there = torch.device(device)
    made = roberta(there, quick)
    rate = multiplied(there, made.model.config)
    name = torch.cuda.get_device_name(there) if there.type == "cuda" else "the processor"
    print(f"{name}: {rate / 1e12:.2f} TFLOP/s in float32")
    return [
        *methods(there, quick),
        *(rounded(there) if there.type == "cuda" else ()),
        whole_corpus(made, rate, 20 if quick else 2000),
        both_games(made, rate, 4 if quick else 100),
        relevance(made, rounds, *((2, 16) if quick else (32, 128))),
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
    """Seconds until the device has done it."""
    _wait(device)
    start = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def multiplied(device: torch.device, config, times: int = 20) -> float:
    """Floating-point operations a second of a matrix product of the model's sizes."""
    left = torch.randn(8192, config.hidden_size, device=device)
    right = torch.randn(config.hidden_size, config.intermediate_size, device=device)
    torch.mm(left, right)
    seconds = clock(lambda: [torch.mm(left, right) for _ in range(times)], device)
    return times * 2 * left.numel() * right.shape[1] / seconds


def methods(device: torch.device, quick: bool) -> Iterable[Row]:
    """How far each method's scores are from those of the processor, as a share of a text's largest."""
    here, there = (nbsal.load("demo/reviews", device=where) for where in ("cpu", device))
    some = nbsal.data.load("samples/reviews")["text"].tolist()[: 2 if quick else SEVERAL]
    names = catalogue.names()[:: 8 if quick else 1]
    apart = {name: _apart(name, here, there, some) for name in names}
    far = {name: how for name, how in apart.items() if isinstance(how, str) or not how <= ALIKE}
    largest = max((how for how in apart.values() if not isinstance(how, str)), default=float("nan"))
    alike = len(names) - len(far)
    said = "".join(f"; {name}: {how if isinstance(how, str) else f'{how:.1e}'}" for name, how in far.items())
    yield Row(
        f"{len(names)} methods on {len(some)} reviews, largest difference from the processor's scores",
        ours=f"{largest:.1e}, {alike} of {len(names)} within {ALIKE:g}{said}",
        **at_least(len(names), alike, " methods"),
    )


def _apart(name: str, here: nbsal.Subject, there: nbsal.Subject, some: list[str]) -> float | str:
    try:
        both = [nbsal.Explainer(subject, name).map(some, progress=False) for subject in (here, there)]
    except Exception as error:  # whatever it is, the other methods can be compared
        return f"{type(error).__name__}: {error}"
    return max(
        float(np.abs(one.scores - two.scores).max() / max(np.abs(one.scores).max(), 1e-30))
        for one, two in zip(*both, strict=True)
    )


def rounded(device: torch.device) -> Iterable[Row]:
    """Rank agreement of content tokens between bfloat16 and float32."""
    full, half = (nbsal.load("demo/reviews", device=device, dtype=dtype) for dtype in ("float32", "bfloat16"))
    some = nbsal.data.load("samples/reviews")["text"].tolist()
    for name in ("gradcam", "gradxact", "decoded-gradcam", "attcat"):
        both = [nbsal.Explainer(subject, name).map(some, progress=False) for subject in (full, half)]
        ranks = [
            pandas.Series(one.scores[~one.special]).corr(pandas.Series(two.scores[~two.special]), "spearman")
            for one, two in zip(*both, strict=True)
        ]
        yield Row(f"  {name} in bfloat16, Spearman with float32", ours=spread(ranks))


def whole_corpus(of: nbsal.Subject, rate: float, count: int) -> Row:
    """Tokens a second of decoded Grad-CAM at all layers."""
    layers = {f"layer {at}": nbsal.Explainer(of, "decoded-gradcam", layer=at) for at in range(of.depth + 1)}
    many = texts_of.texts(count, 20, 200)
    nbsal.compare(of, {name: one.method for name, one in layers.items()}, many[:SEVERAL], progress=False)  # warm
    lengths = [len(row) for row in of.encode(many)]
    with tempfile.TemporaryDirectory() as out:
        seconds = clock(lambda: corpus.explain(layers, many, f"{out}/explained", progress=False), of.device)
    share = needed(trace.record(of, of.encode(many[:SEVERAL])), of.depth) / sum(lengths[:SEVERAL])
    least = (sum(products(of, lengths, 0)) + head_products(of, share * sum(lengths))) / rate
    return Row(
        f"a corpus of {count:,} texts of 20 to 200 tokens, decoded Grad-CAM at {len(layers)} layers, tokens a second",
        ours=f"{sum(lengths) / seconds:,.0f}",
        floor=f"{sum(lengths) / least:,.0f} (arithmetic)",
        ratio=f"{least / seconds:.0%} of the floor's",
    )


def both_games(of: nbsal.Subject, rate: float, count: int) -> Row:
    """Seconds of the games of one method, its explanations with them."""
    explain, many = nbsal.Explainer(of, "gradcam", layer=0), texts_of.texts(count, 20, 100)
    found = explain.map(many, progress=False)
    tables = [np.unique(np.array(coalition_steps(s.row, s.order, FRACTIONS), bool), axis=0) for s in found]
    forward = products(of, [int(kept.sum()) for table in tables for kept in table], 0)[0]
    least = (forward + sum(products(of, [len(s.row) for s in found], 0))) / rate
    play = lambda: games(explain, many, fractions=FRACTIONS, random=0, progress=False)  # noqa: E731
    seconds = clock(play, of.device)
    return Row(
        f"one method, both games, {count} texts of 20 to 100 tokens",
        ours=f"{seconds:.2f} s",
        floor=f"{least:.2f} s (arithmetic)",
        ratio=f"{least / seconds:.0%} of the floor's speed",
    )


def relevance(of: nbsal.Subject, rounds: int, batch: int, length: int) -> Row:
    """Transformer attribution in the model's precision and in float64, in forwards."""
    encoded = rows(batch, length, of.model.config.vocab_size)

    @torch.inference_mode()
    def forward() -> None:
        of.model(**of.inputs(encoded))

    found = {"model": [], "float64": []}
    for dtype, ratios in found.items():
        attribute(of, encoded, dtype)  # warm
        for _ in range(rounds):
            ratios.append(
                clock(lambda dtype=dtype: attribute(of, encoded, dtype), of.device) / clock(forward, of.device)
            )
    return Row(
        f"transformer attribution, {batch} x {length} tokens",
        ours=f"{spread(found['model'])} forwards, in float64 {spread(found['float64'])}",
        **at_most(6.5, found["model"], " forwards"),
    )


def main() -> None:
    options = parser(".gpu", __doc__)
    options.add_argument("--device", default="cuda")
    given = options.parse_args()
    print(markdown(results(given.rounds, given.quick, given.device)))


if __name__ == "__main__":
    main()
