"""What TokenSHAP can do."""

from types import SimpleNamespace
from unittest.mock import patch

import matplotlib as mpl
import token_shap
from tqdm import tqdm

from tests.bench.features import models
from tests.bench.features.registry import partly

mpl.use("Agg")
token_shap.token_shap.tqdm = tqdm  # its own bar needs a notebook


class _Writer(token_shap.Model):
    """A model that writes what it reads, and "unforgettable" if it reads both "warm" and "funny"."""

    def generate(self, prompt):
        return f"{prompt} unforgettable" if "warm" in prompt and "funny" in prompt else prompt or "nothing"


def _explain(text=models.SHORT, pattern=" ", model=None, ratio=1.0):
    explain = token_shap.TokenSHAP(model or _Writer(), token_shap.StringSplitter(pattern))
    explain.analyze(text, sampling_ratio=ratio)
    return explain.shapley_values


def methods(folder):
    assert len(_explain()) == 5
    return "1, from all coalitions or a sample"


def words(folder):
    return f"{[name.rsplit('_', 1)[0] for name in _explain()]}"


def shapley(folder):
    values = _explain()
    assert min(values.values()) == 0 and abs(sum(values.values()) - 1) < 1e-9
    return partly("means with a word minus means without it, shifted so that the lowest is 0 and the sum 1")


def black_box(folder):
    _explain()
    return "any class with `generate`"


def documents(folder):
    names = list(_explain("the dull jokes. a warm film. Who laughs?", r"(?<=[.?]) "))
    assert len(names) == 3
    return partly("pieces by a pattern; the question is one of them")


def served(folder):
    answer = lambda url, json, **_: SimpleNamespace(  # noqa: E731
        status_code=200, json=lambda: {"response": _Writer().generate(json["prompt"])}
    )
    with patch("requests.post", answer):
        values = _explain(model=token_shap.OllamaModel("writer", "http://127.0.0.1:11434"))
    assert values == _explain()
    return "Ollama, or any class with `generate`"
