"""What llmSHAP can do."""

from math import isclose

from llmSHAP import BasicPromptCodec, DataHandler, Image, ShapleyAttribution
from llmSHAP.attribution_methods import CounterfactualSampler, RandomSampler, SlidingWindowSampler

from tests.bench.features import models

DOCUMENTS = {"question": "Who laughs?", "first": "the dull jokes", "second": "a warm film"}


class _Writer:
    """A model that writes the words it reads, and a word for each image and tool."""

    def generate(self, prompt, tools=None, images=None):
        return f"{prompt[-1]['content']} {'image' * bool(images)} {'tool' * bool(tools)}"


def _explain(data, sampler=None, **settings):
    handler = DataHandler(data, **settings)
    return ShapleyAttribution(
        _Writer(), handler, BasicPromptCodec(), sampler=sampler, use_cache=True, verbose=False
    ).attribution()


def methods(folder):
    samplers = (CounterfactualSampler(), RandomSampler(0.5), SlidingWindowSampler(list(range(5)), 3))
    for sampler in (None, *samplers):
        assert len(_explain(models.SHORT, sampler).attribution) == 5
    return f"{1 + len(samplers)} ways to draw coalitions: all, a sample, windows, one left out"


def words(folder):
    return f"{[entry['value'] for entry in _explain(models.SHORT).attribution.values()]}"


def shapley(folder):
    result = _explain(models.SHORT)
    total = sum(entry["score"] for entry in result.attribution.values())
    assert isclose(total, result.grand_coalition_value - result.empty_baseline, abs_tol=1e-9)
    return "exact, of the similarity of what the model writes"


def black_box(folder):
    _explain(models.SHORT)
    return "any class with `generate`"


def documents(folder):
    result = _explain(DOCUMENTS, permanent_keys={"question"}).attribution
    assert result["question"]["score"] == 0 and len(result) == 3
    return "entries of a dict; those that are named always stay"


def served(folder):
    assert _explain(models.SHORT).output.startswith(models.SHORT)
    return "clients of OpenAI and LangChain, or any class with `generate`; several requests at once"


def modalities(folder):
    data = {"text": "a warm film", "picture": Image(url="https://example.org/film.png"), "tool": len}
    assert all(_explain(data).attribution[name]["score"] != 0 for name in ("picture", "tool"))
    return "images and tools as units of a prompt"
