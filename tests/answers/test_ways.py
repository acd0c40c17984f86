"""Ways to hide units of a prompt, each against a literal loop, and what they share between methods."""

from itertools import compress, product

import numpy as np
import pytest
import torch

import nbsal
from nbsal.ablation.decision import WAYS
from nbsal.explain.prompt.sources import parse_documents, parse_messages
from nbsal.support.errors import InputError, UnknownName
from tests.ablation.runs import hide
from tests.answers import writers
from tests.answers.writers import reading_of
from tests.cases import cases
from tests.raising import refuses

SENTENCES = ["The film is a joy.", "The plot is a bore.", "Ann wrote the book.", "Ben read it."]
PROMPT = " ".join(SENTENCES)
REPLY = " Ann wrote it."
SUBSETS = np.array(list(product([True, False], repeat=4)))


def literal(subject, asked, reply_ids, **settings):
    """The log-probabilities of the same reply to another prompt, which is read as any other."""
    result = nbsal.answer(subject, asked, list(reply_ids), method="random", progress=False, check=False, **settings)
    return result.statistics.logprob


def check_values(experiment, truth):
    """That each subset of units has the values `truth(subset)`."""
    for subset, values in zip(SUBSETS[:-1], experiment.numbers(SUBSETS[:-1]), strict=True):
        assert values == pytest.approx(truth(subset), abs=1e-6)


@cases("name", writers.MODELS)
def test_text_without_a_sentence_is_the_text_that_a_user_would_send(name):
    subject = writers.load(name)
    reading = reading_of(subject, PROMPT)
    experiment = hide(subject, reading, reading.units("sentence"), "text")
    check_values(experiment, lambda subset: literal(subject, " ".join(compress(SENTENCES, subset)), reading.reply_ids))
    assert experiment.ablation.forwards == len(SUBSETS) - 1
    assert np.isfinite(experiment.numbers(SUBSETS)).all(), "without any text, the first token is read"


@cases("unit", ["token", "word", [(0, 18), (39, 58)]])
def test_units_of_any_kind_are_cut_out_of_the_text(unit):
    subject = writers.load()
    reading = reading_of(subject, PROMPT)
    units = reading.units(unit)
    values = hide(subject, reading, units, "text").numbers(~np.eye(len(units), dtype=bool))
    for hidden, row in zip(units, values, strict=True):
        text = (PROMPT[: hidden.span[0]].rstrip() + PROMPT[hidden.span[1] :]).strip()
        assert row == pytest.approx(literal(subject, text, reading.reply_ids), abs=1e-6)


def chat(*contents):
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " ".join(contents)}]


@cases("template", ["chatml", "llama 3", "gemma", "mistral", "citing"])
def test_text_of_messages_is_rendered_anew(template):
    subject = writers.load(template=template)
    reading = reading_of(subject, parse_messages(chat(*SENTENCES), [], False))
    units = [unit for unit in reading.units("sentence") if unit.source == 1]
    experiment = hide(subject, reading, units, "text")
    check_values(experiment, lambda subset: literal(subject, chat(*compress(SENTENCES, subset)), reading.reply_ids))


@cases("template, text", [("citing", "Who?"), ("chatml", "Read:\n{documents}\nWho?"), ("chatml", "Who?")])
def test_text_without_documents_is_the_list_without_them(template, text):
    subject, documents = writers.load(template=template), [{"title": s[:5], "text": s} for s in SENTENCES]
    reading = reading_of(subject, parse_messages(chat(text), parse_documents(documents), template == "citing"))
    units = [unit for unit in reading.units("document") if unit.name.startswith("document")]

    def truth(subset):
        return literal(subject, chat(text), reading.reply_ids, documents=list(compress(documents, subset)))

    check_values(hide(subject, reading, units, "text"), truth)
    whole = hide(subject, reading, reading.units("message"), "text")
    assert np.isfinite(whole.values(~np.eye(len(whole.units), dtype=bool))).all()


@cases("way", ["pad", 7])
def test_another_token_stands_in_place_of_a_hidden_one(way):
    subject = writers.load()
    reading = reading_of(subject, PROMPT)
    units = reading.units("sentence")

    def truth(subset):
        ids = torch.tensor([reading.row.ids])
        for unit in compress(units, ~subset):
            ids[0, list(unit.tokens)] = 0 if way == "pad" else way
        with torch.no_grad():
            logits = subject.model(ids).logits[0, reading.start - 1 : -1]
        return logits.log_softmax(-1)[range(len(reading.reply_ids)), reading.reply_ids].numpy()

    check_values(hide(subject, reading, units, way), truth)


def test_the_provenance_says_how_units_are_hidden():
    subject, hidden = writers.load(), {}
    for way in ("remove", "text", "pad", 7):
        result = nbsal.answer(subject, PROMPT, REPLY, method=nbsal.Occlusion(way=way), progress=False)
        assert result.provenance["parameters"]["way"] == way
        hidden[way] = result.provenance["hidden"]
    assert len(set(hidden.values())) == 4
    for way, error in (("mask", InputError), ("blur", UnknownName)):
        with refuses("way", error) as caught:
            nbsal.answer(subject, PROMPT, REPLY, method=nbsal.Occlusion(way=way), progress=False)
    assert {*WAYS, "text"} < set(caught.value.valid)
    rewriting = nbsal.Explainer(writers.load(template="upper case"), nbsal.Occlusion(way="text"))
    with refuses("way"):
        rewriting.reply(chat(PROMPT), REPLY, progress=False)


def sequences(subject):
    """A list that grows by the texts of every forward pass of the model."""
    texts = []
    subject.model.register_forward_pre_hook(
        lambda module, args, arguments: texts.extend(arguments["input_ids"].tolist()), with_kwargs=True
    )
    return texts


SELF_TEST, STATISTICS = 4, 1  # texts that are run beside the subsets, the first once a model


def test_methods_that_hide_share_their_subsets():
    subject = writers.load()
    texts = sequences(subject)
    methods = ["shapley", "occlusion", "contextcite", "ridge", "lime"]
    results = nbsal.answer(subject, PROMPT, REPLY, method=methods, progress=False)
    assert len(texts) == 2**4 + STATISTICS + SELF_TEST, "exact Shapley values have every subset that there is"
    assert len({id(result.running.experiment) for result in results.values()}) == 1
    for name, result in results.items():
        alone = nbsal.answer(subject, PROMPT, REPLY, method=name, progress=False)
        assert np.allclose(alone.scores, result.scores, atol=1e-9) and alone.number == result.number
    assert results["contextcite"].number == "logit-prob" and results["ridge"].number == "logprob"
    ways = {"dropped": nbsal.Ridge(), "cut": nbsal.Ridge(way="text")}
    apart = nbsal.answer(subject, PROMPT, REPLY, method=ways, progress=False)
    assert apart["dropped"].provenance["hidden"] != apart["cut"].provenance["hidden"]
    with pytest.raises(InputError):
        nbsal.answer(subject, PROMPT, REPLY, method=["ridge", "ridge"], progress=False)


def test_methods_that_read_the_same_trace_share_it(forwards):
    subject = writers.load()
    methods = {"gae": "gae", "rollout": "rollout", "gradxact": nbsal.GradientXActivation(layer=1)}
    results = nbsal.answer(subject, PROMPT, REPLY, method=methods, number="logit", progress=False, check=False)
    assert len(forwards) == 2, "one for the scores of all three, one for the probabilities"
    for name, method in methods.items():
        alone = nbsal.answer(subject, PROMPT, REPLY, method=method, number="logit", progress=False)
        assert np.allclose(alone.scores, results[name].scores, atol=1e-9)


@cases(
    "methods, passes",
    [
        (["integrated", "smooth"], 1 + 25 + 2 + 10),  # the states, the path of either, and the baseline and its output
        (["lrp", "partial-lrp"], 1),
        (["attention-cam", "attention-gradcam"], 1),  # a batch of texts that end before a token each
    ],
)
def test_methods_share_traces_that_hold_several_tokens_alike(forwards, methods, passes):
    subject, settings = writers.load(), {"number": "logit", "progress": False, "check": False}
    alone = [nbsal.answer(subject, PROMPT, REPLY * 2, method=name, **settings) for name in methods]
    forwards.clear()
    together = nbsal.answer(subject, PROMPT, REPLY * 2, method=methods, **settings)
    assert len(forwards) == passes + 1, "one for the probabilities"
    for one, answer in zip(alone, together.values(), strict=True):
        assert np.allclose(one.scores, answer.scores, atol=1e-9)


@cases("method", ["contextcite", "ridge", "occlusion", "gae", "attcat"])
def test_the_batch_size_changes_nothing_but_memory(method):
    subject, sizes = writers.load(), []
    subject.model.register_forward_pre_hook(
        lambda module, args, arguments: sizes.append(len(arguments["input_ids"])), with_kwargs=True
    )
    whole = nbsal.answer(subject, PROMPT, REPLY, method=method, progress=False)
    sizes.clear()
    two = nbsal.answer(subject, PROMPT, REPLY, method=method, batch_size=2, progress=False)
    assert np.allclose(whole.scores, two.scores, atol=1e-9) and max(sizes) <= 2


def test_the_head_reads_only_the_places_that_predict_the_reply():
    subject, places = writers.load(), []
    subject.model.get_output_embeddings().register_forward_hook(lambda _, __, logits: places.append(logits.shape[1]))
    result = nbsal.answer(subject, PROMPT, REPLY, method="occlusion", batch_size=1, progress=False)
    assert len(places) > 5 and set(places) == {len(result.ids)}


@cases("way", ["remove", "text"])
def test_exact_shapley_values_sum_to_the_change_in_every_row(way):
    subject = writers.load()
    result = nbsal.answer(subject, PROMPT, REPLY, method=nbsal.Shapley(2, way=way), progress=False)
    empty, full = result.running.experiment.numbers([[False] * 4, [True] * 4])
    assert result.unit_scores().sum(1) == pytest.approx(full - empty, abs=1e-6)
    assert result.provenance["subsets"] == 16 and result.provenance["parameters"]["orders"] == "all"


def test_a_span_of_a_lasso_is_its_own_lasso():
    subject = writers.load()
    result = nbsal.answer(subject, PROMPT, REPLY, method="contextcite", progress=False)
    assert not result.linear and result.matrix("reply").attrs["sum"] != "exact"
    forwards = result.running.experiment.ablation.forwards
    span = result.of(slice(0, 3))
    method = result.running.method
    table = method.coalitions(result.reading.row, [unit.tokens for unit in result.units])
    values = result.running.experiment.numbers(table, number="logit-prob")[:, :3]
    expected = method.sum_scores(table, values)
    sums = [span.scores[[i for i in unit.tokens if i < len(span.scores)]].sum() for unit in result.units]
    assert sums == pytest.approx(expected)
    assert result.running.experiment.ablation.forwards == forwards, "no subset is run again"
    ridge = nbsal.answer(subject, PROMPT, REPLY, method="ridge", progress=False)
    summed = ridge.scores[:3].sum(0)
    assert np.allclose(ridge.running.score_sum([0, 1, 2]), summed) and ridge.linear


def test_odds_are_finite_where_the_model_is_sure():
    subject = writers.load(dtype=torch.float32)
    with torch.no_grad():
        subject.model.lm_head.weight.mul_(1000)
    result = nbsal.answer(subject, PROMPT, method="contextcite", max_new_tokens=6, progress=False)
    assert (result.statistics.logprob > -1e-6).any() and np.isfinite(result.scores).all()


GOLDEN = {
    "remove": [-0.0032, -0.0040, -0.0007, -0.0553, -8.3077, -8.1779, -7.3477, -5.8432],
    "text": [-0.0032, -0.0006, -0.0028, -0.0002, -9.2033, -9.0336, -8.4476, -12.656],
}


@cases("way", GOLDEN)
def test_golden_values(way):
    """Of an embedded model, with every subset of three notes: only the first says where Mara lives."""
    subject, notes = nbsal.load("demo/notes"), ["Mara lives in Oslo now.", "The keys to the attic are with Mara."]
    question = [{"role": "user", "content": "Where does Mara live?"}]
    settings = {"documents": [*notes, "Boris lives in Rouen."], "unit": "document", "progress": False}
    result = nbsal.answer(subject, question, " Mara lives in Oslo.", method=nbsal.Occlusion(way=way), **settings)
    subsets = np.array(list(product([True], *[[True, False]] * 3)))
    assert result.running.experiment.numbers(subsets).sum(1) == pytest.approx(GOLDEN[way], abs=2e-3)
