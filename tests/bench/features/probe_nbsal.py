"""What nbsal can do."""

from threading import Event

import numpy as np
import transformers

import nbsal
from nbsal.methods import catalogue
from tests.bench.features import models
from tests.bench.features.registry import no, partly

DOCUMENTS = ["the dull jokes", "a warm film"]


def _explain(method="gradxact", build=models.classifier, **settings):
    model, tokenizer = build()
    return nbsal.Explainer(nbsal.load(model, tokenizer=tokenizer), method, **settings)


def _reply(build=models.writer, method="gradxact", **settings):
    return _explain(method, build).reply(models.PROMPT, models.REPLY, progress=False, **settings)


def methods(folder):
    names = catalogue.names()
    variants = [name for name in names if "@" in name]
    return f"{len(names) - len(variants) - 1} methods, beside {len(variants)} reference variants and random scores"


def batch(folder):
    explain = _explain()
    both, alone = explain.map([models.SHORT, models.LONG], progress=False), explain(models.SHORT)
    assert np.allclose(both[0].scores, alone.scores, atol=1e-5)
    return "equal"


def layers(folder):
    assert _explain().every_layer(models.SHORT).scores.shape[0] == 4
    return "one forward and one backward pass"


def offsets(folder):
    saliency = _explain()(models.TYPED)
    return f"{[models.TYPED[a:b] for a, b in saliency.offsets if b > a]}"


def words(folder):
    return f"{_explain()(models.TYPED).by_word()['word'].tolist()}"


def pairs(folder):
    _explain()((models.SHORT, models.LONG))
    return "a tuple"


def spans(folder):
    _explain(build=models.reader)((models.SHORT, models.LONG), target=(9, 11))
    return "both ends"


def tagging(folder):
    _explain(build=models.tagger)(models.SHORT, target=(2, "label 1"))
    return "a position and a label"


def contrast(folder):
    _explain()(models.SHORT, target=nbsal.contrast("label 0", "label 1"))
    return "classes and tokens"


def head_mask(folder):
    mask = nbsal.heads.HeadMask.from_array(np.eye(3, 4))
    _explain("mask-lrp", mask=mask)(models.SHORT)
    return "relevance through chosen heads, found in parses"


def relevance_bert(folder, build=models.classifier, text=models.SHORT):
    for method in ("lrp", "attn-lrp", "transformer-attribution"):
        assert np.isfinite(_explain(method, build)(text).scores).all()
    return "LRP, AttnLRP, transformer attribution"


def relevance_llama(folder):
    return relevance_bert(folder, models.writer, models.PROMPT)


def shapley(folder):
    for method in ("shapley", "lime", "kernel-shap"):
        _explain(method)(models.SHORT)
    return "permutations, Kernel SHAP, LIME"


def black_box(folder):
    subject = nbsal.load(lambda texts: [[0.5 + 0.1 * ("warm" in text), 0.4] for text in texts])
    assert nbsal.Explainer(subject, "occlusion")(models.SHORT).top(1)["token"].item().strip() == "warm"
    return "a function of texts to probabilities"


def reply(folder):
    return f"{_reply().scores.shape} scores of prompt and reply"


def encoder_decoder(folder):
    return f"{_reply(models.translator).scores.shape} scores of source and reply"


def documents(folder):
    answer = _reply(documents=DOCUMENTS, unit="document", method="occlusion")
    return f"{len(answer.sources())} units"


def lens(folder):
    return f"{len(_reply().lens())} rows, tokens by layer"


def step_functions(folder):
    answer = _reply(documents=DOCUMENTS, unit="document", method="occlusion", number="divergence")
    assert np.abs(answer.scores).max() > 0
    return partly("Jensen-Shannon divergence, for methods that hide; log-probabilities and log-odds")


def hops(folder):
    assert _reply(method="ifr").through("all").scores.shape == _reply().scores.shape
    return "any number, for every method that scores each token"


def served(folder):
    server = lambda pairs: [[-1.0 - ("warm" not in prompt)] * len(reply.split()) for prompt, reply in pairs]  # noqa: E731
    subject = nbsal.load(nbsal.Endpoint(server, model="writer"))
    answer = nbsal.answer(subject, "a warm film", "funny film", method="occlusion", unit="word", progress=False)
    assert answer.sources(1, rows="reply")["text"].item().strip() == "warm"
    return "vLLM, llama.cpp, TGI and others, or a function; with a budget of requests"


def save(folder):
    saliency = _explain()(models.SHORT)
    saliency.save(folder / "s.json")
    assert np.array_equal(nbsal.Saliency.load(folder / "s.json").scores, saliency.scores)
    return "JSON"


def html(folder):
    page = _explain()("<b>film").to_html()
    assert "<script" not in page and "<b>film" not in page
    return "escaped"


def view(folder):
    view = nbsal.widgets.Highlight(_explain(), text=models.SHORT)
    view.wait()
    view.text = models.LONG
    view.wait()
    assert view.result.text == models.LONG
    return "text, layer, method and selection are traits"


def progress(folder):
    stop = Event()
    try:
        _explain().map([models.SHORT] * 9, batch_size=1, progress=lambda done, total: stop.set(), cancel=stop)
    except nbsal.support.errors.Cancelled:
        return partly("a bar, and an event that cancels; corpora keep what is done, `map` does not")
    return no("not cancelled")


def corpus(folder):
    for _ in range(2):
        corpus = nbsal.corpus.explain(_explain(), [models.SHORT, models.LONG], folder / "corpus", progress=False)
    assert len(corpus) == 2
    return "Parquet; the same call goes on"


def faithfulness(folder):
    explainers = {name: _explain(name) for name in ("gradxact", "random")}
    games = nbsal.evaluation.games(explainers, [models.SHORT, models.LONG], progress=False)
    scores = nbsal.evaluation.faithfulness(explainers, [models.SHORT, models.LONG], progress=False)
    return f"{', '.join(sorted(set(games.auc()['game'])))}, AOPC and log-odds" if scores is not None else partly("")


def check(folder):
    assert _explain()(models.LONG, check=True).statement().state != "unchecked"
    return "alone, together, and beside random words"


def audit(folder):
    texts, labels = [models.SHORT, models.LONG] * 2, ["label 0", "label 1"] * 2
    audit = nbsal.audit(_explain(), texts, labels, least=1, progress=False)
    assert len(audit.mistakes) and len(audit.words)
    return "measured by hiding each word, adjusted for the number of words"


def live(folder):
    model, tokenizer = models.classifier()
    subject = nbsal.load(model, tokenizer=transformers.BertTokenizer(vocab=tokenizer.get_vocab()))
    nbsal.widgets.Highlight(nbsal.Explainer(subject, "gradcam"), text=models.SHORT).to_html(
        folder / "a.html", live=True
    )
    assert list(folder.glob("nbsal-live/*/model.bin"))
    return "for uncased BERT classifiers: a copy with rounded weights and four gradient methods"


def counterfactuals(folder):
    assert nbsal.flip(_explain(), models.SHORT).changes
    return partly("words taken out: the smallest set that changes the decision")
