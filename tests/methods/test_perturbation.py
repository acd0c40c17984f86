"""Hiding methods: exact on a bag of embeddings, equal to captum where captum is right, and nobody sees another."""

from dataclasses import replace
from threading import Event

import numpy as np
import pytest
import torch
from captum._utils.models.linear_model import SkLearnLinearModel
from captum.attr import LimeBase, Occlusion, ShapleyValueSampling

import nbsal
from nbsal.errors import Cancelled, InputError, UnknownName
from nbsal.methods import perturbation, rng
from tests import axioms, bag, zoo

TEXT = axioms.TEXTS[0]
METHODS = {
    "occlusion": nbsal.Occlusion(),
    "lime": nbsal.LIME(300, ridge=0.0),
    "shapley": nbsal.Shapley(3),
    "shapley, antithetic": nbsal.Shapley(3, antithetic=True),
}
QUICK = [nbsal.Occlusion(2), nbsal.LIME(12), nbsal.Shapley(2), nbsal.Random()]


def exactly_the_worth(method, way="remove", level="token"):
    """On a bag every token is worth a known number, less what stands in its place."""
    subject = bag.subject()
    row = subject.encode(TEXT)[0]
    stand_in = 0.0
    if way != "remove":
        filler = {"mask": subject.tokenizer.mask_token_id, "pad": 0}[way]
        stand_in = bag.contributions(subject, replace(row, ids=(filler,)), 1).item()
    truth = np.where(row.special, 0.0, bag.contributions(subject, row, 1).numpy() - stand_in)
    found = nbsal.Explainer(subject, replace(method, way=way, level=level))(TEXT, target=1)
    if level == "word":
        for word in row.words:
            truth[list(word.tokens)] = truth[list(word.tokens)].mean()
    assert axioms.relative(found.scores, truth) < 1e-6
    return found


@pytest.mark.parametrize("level", perturbation.LEVELS)
@pytest.mark.parametrize("way", ["remove", "mask", "pad"])
@pytest.mark.parametrize("name", METHODS)
def test_a_bag_is_explained_exactly(name, way, level):
    found = exactly_the_worth(METHODS[name], way, level)
    if name.startswith("shapley"):
        assert abs(found.provenance["gap"]) < 1e-6 < abs(found.provenance["change"])
        assert f"{found.scores.sum():+.4g}" in " ".join(found.notes())


MUTANTS = {
    "special tokens are hidden, too": (
        perturbation,
        "_over_positions",
        lambda kept, parts, row: np.repeat(kept[:, :1], len(row), 1),
    ),
    "the last token is never hidden": (
        perturbation,
        "units",
        lambda row, level: [(place,) for place in row.content[:-1]],
    ),
    "values are those of another label": (
        perturbation.MaskedModel,
        "values",
        lambda self, rows, kept, targets, meter: [logits[:, 0] for logits in self.logits(rows, kept, meter)],
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("name", METHODS)
def test_the_bag_catches(name, mutant, monkeypatch):
    monkeypatch.setattr(*MUTANTS[mutant])
    with pytest.raises(AssertionError):
        exactly_the_worth(METHODS[name])


def test_words_are_hidden_together():
    """A word's tokens share what hiding the word takes away, and `by_word` gives it back."""
    subject = bag.subject()
    found = nbsal.Explainer(subject, nbsal.Occlusion(level="word"))("An unbearable film.", target=2)
    worth = bag.contributions(subject, found.row, 2).numpy()
    assert max(len(word.tokens) for word in found.words) > 2
    truth = [worth[list(word.tokens)].sum() for word in found.words]
    assert axioms.relative(found.by_word()["score"], truth) < 1e-9


def frozen_positions(subject, row):
    """The target of captum's perturbed ids, at the positions of the original ones."""
    inputs = subject.inputs(subject.encode(TEXT))
    first = zoo.FIRST_POSITION.get(subject.model.config.model_type, 0)
    inputs["position_ids"] = torch.arange(len(row))[None] + first
    label = subject.logits(inputs)[0].argmax()

    def value(ids):
        many = {name: tensor.expand(len(ids), -1) for name, tensor in inputs.items()}
        with torch.no_grad():
            return subject.logits(many | {"input_ids": ids.long()})[:, label]

    return value


def content_alone(value, row):
    """The same for the ids of content tokens; special ones stand around them."""
    whole = torch.tensor([row.ids])

    def inner(ids):
        many = whole.repeat(len(ids), 1)
        many[:, list(row.content)] = ids.long()
        return value(many)

    return inner


@pytest.fixture(params=["bert", "roberta"])
def asked(request, load):
    """A subject, its row, and captum's view of it: content ids, what stands for hidden ones, and the target."""
    subject = load(request.param)
    row = subject.encode(TEXT)[0]
    ids = torch.tensor([[row.ids[i] for i in row.content]])
    base = torch.full_like(ids, subject.tokenizer.mask_token_id)
    return subject, row, ids, base, content_alone(frozen_positions(subject, row), row)


@pytest.mark.parametrize("window", [1, 2, 3])
def test_occlusion_is_captums(asked, window):
    subject, row, ids, base, value = asked
    truth = Occlusion(value).attribute(ids, sliding_window_shapes=(window,), baselines=base)[0]
    found = nbsal.Explainer(subject, nbsal.Occlusion(window, way="mask"))(TEXT)
    assert axioms.relative(found.scores[list(row.content)], truth) < 1e-6
    assert not found.scores[found.special].any()


def test_shapley_is_captums(asked, monkeypatch):
    """With captum's permutations in place of ours."""
    subject, row, ids, base, value = asked
    orders = [rng.text_rng(0, row).permutation(len(row.content))]
    sampling = ShapleyValueSampling(value)
    sampling.permutation_generator = lambda features, samples: [list(order) for order in orders]
    truth = sampling.attribute(ids, baselines=base, n_samples=1)[0]
    found = nbsal.Explainer(subject, nbsal.Shapley(1, way="mask"))(TEXT)
    assert axioms.relative(found.scores[list(row.content)], truth) < 1e-6


def test_lime_is_captums(asked):
    """With our subsets and our kernel in captum's loop, and scikit-learn's ridge."""
    subject, row, ids, base, value = asked
    method = nbsal.LIME(40, way="mask")
    kept = torch.tensor(method.subsets(row, [(i,) for i in row.content])).float()

    def subsets(ids, **ignored):
        yield from (one[None] for one in kept)

    def kernel(ids, perturbed, present, **ignored):
        cosine = torch.nn.functional.cosine_similarity(present, torch.ones_like(present)).nan_to_num()
        return torch.exp(-((1 - cosine) ** 2) / 0.25**2).sqrt()

    base_lime = LimeBase(
        value,
        SkLearnLinearModel("linear_model.Ridge", alpha=1.0),
        kernel,
        subsets,
        True,
        lambda present, ids, **ignored: torch.where(present.bool(), ids, base),
        None,
    )
    truth = base_lime.attribute(ids, n_samples=40)[0]
    found = nbsal.Explainer(subject, method)(TEXT)
    assert axioms.relative(found.scores[list(row.content)], truth) < 1e-5  # scikit-learn solves in float32


@pytest.mark.parametrize("level", perturbation.LEVELS)
@pytest.mark.parametrize("method", QUICK, ids=lambda method: method.name)
@pytest.mark.parametrize("architecture", ["bert", "roberta", "deberta-v2", "gpt2"])
def test_batches_padding_and_special_tokens(load, architecture, method, level):
    explain = nbsal.Explainer(load(architecture), replace(method, level=level))
    axioms.batch_equals_singles(explain)
    if architecture == "bert":
        axioms.padding_is_invisible(explain)
    found = explain(TEXT)
    assert not found.scores[found.special].any()
    assert np.count_nonzero(found.scores) > len(found.row.content) / 2


def test_the_axioms_catch_a_shared_generator(load, monkeypatch):
    """A mutant that draws every text from one stream depends on who is explained beside it."""
    stream = np.random.default_rng(0)
    monkeypatch.setattr(perturbation, "text_rng", lambda seed, row: stream)
    for method in (nbsal.LIME(12), nbsal.Shapley(2), nbsal.Random()):
        with pytest.raises(AssertionError):
            axioms.batch_equals_singles(nbsal.Explainer(load("bert"), method))


def test_a_seed_of_numpy_is_the_same_seed(load, tmp_path):
    """Whoever loops over np.arange gets the numbers of range, and may save them."""
    subject = load("bert", decoding=False)
    for name in ("lime", "smooth", "random"):
        plain, counted = (nbsal.Explainer(subject, name, seed=seed)(TEXT) for seed in (3, np.arange(4)[3]))
        assert np.array_equal(plain.scores, counted.scores)
        counted.save(tmp_path / "s.json")
        assert nbsal.Saliency.load(tmp_path / "s.json").provenance == plain.provenance
    with pytest.raises(InputError, match="seed must be a whole number"):
        nbsal.Explainer(subject, "random", seed="three")(TEXT)


def test_draws_depend_on_seed_and_text_alone(load):
    subject = load("bert", dtype="float32")
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = nbsal.Explainer(subject, nbsal.Shapley(2, seed=5))(TEXT).scores
    torch.manual_seed(2)
    np.random.seed(3)
    assert np.array_equal(one, nbsal.Explainer(subject, nbsal.Shapley(2, seed=5))(TEXT).scores)
    assert not np.array_equal(one, nbsal.Explainer(subject, nbsal.Shapley(2, seed=6))(TEXT).scores)
    torch.manual_seed(1)
    nbsal.Explainer(subject, "lime")(TEXT)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_large_job_in_parts_is_the_same(load, monkeypatch):
    explain = nbsal.Explainer(load("bert", dtype="float32"), nbsal.Shapley(3))
    whole = explain.map(axioms.TEXTS, progress=False)
    monkeypatch.setattr(perturbation, "CELLS", 300)
    for one, other in zip(whole, explain.map(axioms.TEXTS, progress=False), strict=True):
        assert axioms.relative(one.scores, other.scores) < 1e-5


@pytest.mark.parametrize("method", [nbsal.Occlusion(2), nbsal.Shapley(2)], ids=lambda method: method.name)
def test_every_kind_of_target(load, method):
    pair, contrast = ("Who wrote it?", "The company wrote it."), nbsal.contrast(1, 2)
    bert = load("bert", dtype="float32")
    first, second = (nbsal.Explainer(bert, method)(TEXT, target=label).scores for label in (1, 2))
    assert axioms.relative(nbsal.Explainer(bert, method)(TEXT, target=contrast).scores, first - second) < 1e-4
    span = nbsal.Explainer(load("bert", "span", dtype="float32"), method)
    both = span(pair, target=(9, None)).scores + span(pair, target=(None, 11)).scores
    assert axioms.relative(span(pair, target=(9, 11)).scores, both) < 1e-4
    assert nbsal.Explainer(load("bert", "token", dtype="float32"), method)(TEXT, target=(3, 1)).scores.any()
    assert nbsal.Explainer(load("llama", "causal", dtype="float32"), method)(TEXT).scores.any()


def test_windows_stay_within_a_member_of_a_pair(load):
    row = load("bert").encode(("A joy.", "A bore."))[0]
    kept = nbsal.Occlusion(3).subsets(row, perturbation.units(row, "token"))
    segments = np.array([row.segments[i] for i in row.content])
    assert all(len(set(segments[~one])) == 1 for one in kept[1:])
    assert (~kept[1:]).any(0).all()


def test_forwards_are_those_the_catalogue_names(load):
    """No subset is asked about twice, not even by two methods on one trace."""
    subject = load("bert", dtype="float32")
    calls = []
    hook = subject.model.register_forward_hook(lambda module, args, output: calls.append(len(output.logits)))
    n = len(subject.encode(TEXT)[0].content)
    nbsal.Explainer(subject, nbsal.Occlusion(way="mask"))(TEXT)
    assert sum(calls) == 1 + n
    calls.clear()
    nbsal.Explainer(subject, nbsal.Shapley(4, way="mask"))(TEXT)
    assert n < sum(calls) <= 2 + 4 * (n - 1)
    calls.clear()
    nbsal.compare(subject, [nbsal.Occlusion(way="mask"), nbsal.Shapley(4, way="mask")], [TEXT], progress=False)
    assert sum(calls) < 1 + n + 4 * (n - 1)
    hook.remove()


def test_progress_and_cancel_reach_into_a_batch(load, monkeypatch):
    monkeypatch.setattr("nbsal.model.masking.TOKENS", 64)
    explain = nbsal.Explainer(load("bert", dtype="float32"), nbsal.Shapley(5))
    seen = []
    explain.map(axioms.TEXTS, progress=lambda *at: seen.append(at))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert len(seen) > 1 and seen[-1] == (4, 4)  # one batch, told of in parts
    cancel = Event()
    with pytest.raises(Cancelled):
        explain.map(axioms.TEXTS, progress=lambda done, total: cancel.set(), cancel=cancel)


def test_wrong_settings_are_named(load):
    subject = load("bert")
    for settings, said in (
        ({"level": "letter"}, "token, word"),
        ({"way": "blur"}, "remove, mask, pad"),
    ):
        with pytest.raises(UnknownName, match=said):
            nbsal.Explainer(subject, "shapley", **settings)
    with pytest.raises(InputError, match="samples must be at least 1"):
        nbsal.Explainer(subject, "shapley", samples=0)
    with pytest.raises(InputError, match="window must be a whole number"):
        nbsal.Explainer(subject, "occlusion", window=1.5)
    with pytest.raises(InputError, match="ridge is 0 or more"):
        nbsal.Explainer(subject, "lime", ridge=-1)
    with pytest.raises(InputError, match="width must be a number, not None"):
        nbsal.Explainer(subject, "lime", width=None)
    with pytest.raises(UnknownName, match="token, word"):
        nbsal.Explainer(subject, "random", level="letter")
