"""One saved result of each kind, and all that is said, tabulated and drawn of them, in views too.

`python -m tests.saved_results FOLDER` opens those in a folder without torch and writes what came of it beside them.
"""

import asyncio
import base64
import json
import pickle
import re
import sys
import threading
from io import BytesIO
from pathlib import Path

import nbsal
from nbsal.support.errors import MODEL_PACKAGES

TEXTS = ["A warm and funny film.", "A dull, slow film.", "Slow but warm."]
ASKED = [{"role": "user", "content": "Where does Mara live?"}]


class Blocked:
    """Refuses to import the packages that run models, as if they were not installed."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in MODEL_PACKAGES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def save_each_kind(folder):
    """Save one result of each kind."""
    reviews, notes = nbsal.load("demo/reviews"), nbsal.load("demo/notes")
    explain = nbsal.Explainer(reviews, "decoded-gradcam")
    many = explain.map(TEXTS, progress=False)
    explain(TEXTS[0], check=True).save(folder / "saliency.nbsal")
    for name in ("gradxact", "rollout"):
        nbsal.Explainer(reviews, name)(TEXTS[0]).save(folder / f"{name}.nbsal")
    explain.every_layer(TEXTS[0]).save(folder / "layers.nbsal")
    (folder / "cloud.pickle").write_bytes(pickle.dumps(nbsal.clouds.rank(many)))
    nbsal.evaluation.games(explain, TEXTS, random=2, progress=False).save(folder / "games.nbsal")
    nbsal.audit(explain, TEXTS, [1, 0, 0], least=1, progress=False).save(folder / "audit.nbsal")
    parse = nbsal.heads.Parse.from_lists(["good", "food"], [1, -1], ["amod", "root"])
    nbsal.heads.study(reviews, [parse], progress=False).save(folder / "study.nbsal")
    reviews.mask.save(folder / "mask.nbsal")
    documents = ["Mara lives in Oslo.", "Boris lives in Rouen."]
    answer = nbsal.answer(notes, ASKED, documents=documents, method="gae", progress=False)
    answer.through(2).save(folder / "answer.nbsal")
    answer.of("Oslo").save(folder / "span.nbsal")
    nbsal.corpus.explain(explain, TEXTS, folder / "corpus", progress=False)
    rows = [{"asked": ASKED, "documents": documents}]
    nbsal.corpus.explain_replies(
        nbsal.Explainer(notes, "gae"), rows, folder / "replies", documents="documents", progress=False
    )


def opened(folder):
    """Every saved result, by name."""
    kinds = dict.fromkeys(["saliency", "gradxact", "rollout", "span"], nbsal.Saliency) | {
        "layers": nbsal.LayerSaliency,
        "audit": nbsal.Audit,
        "study": nbsal.heads.HeadStudy,
        "mask": nbsal.heads.HeadMask,
        "answer": nbsal.Answer,
    }
    results = {name: kind.load(folder / f"{name}.nbsal") for name, kind in kinds.items()}
    return results | {
        "games": nbsal.evaluation.Results.load(folder / "games.nbsal"),
        "cloud": pickle.loads((folder / "cloud.pickle").read_bytes()),
        "corpus": nbsal.corpus.open(folder / "corpus"),
        "replies": nbsal.corpus.open_replies(folder / "replies"),
    }


def views_of(results):
    """Every view that shows finished results."""
    widgets, saliency, corpus = nbsal.widgets, results["saliency"], results["corpus"]
    return {
        "Highlight": widgets.Highlight(saliency),
        "Layers": widgets.Layers(results["layers"]),
        "Compare": widgets.Compare(saliency, results["gradxact"]),
        "Clouds": widgets.Clouds(corpus, idf={}),
        "Clouds of a cloud": widgets.Clouds(results["cloud"]),
        "Browse": widgets.Browse(corpus),
        "Browse of a list": widgets.Browse(list(corpus), labels=["positive", "negative", "negative"]),
        "Games": widgets.Games(results["games"]),
        "Heads": widgets.Heads(results["study"]),
        "Heads of a mask": widgets.Heads(results["mask"]),
        "Answers": widgets.Answers(results["answer"]),
        "Audit": widgets.Audit(results["audit"]),
    }


def written(results):
    """What each result and each view says, tabulates and draws."""
    lines = {name: [repr(result)] for name, result in results.items()}
    for name, result in results.items():
        lines[name] += [getattr(result, method)() for method in ("_repr_html_", "to_html") if hasattr(result, method)]
        if hasattr(result, "to_frame"):
            lines[name].append(result.to_frame().to_csv())
        if hasattr(result, "plot"):
            drawn = result.plot()
            getattr(drawn, "figure", drawn).savefig(picture := BytesIO(), format="png")
            lines[name].append(picture.getvalue())
    saliency, answer, corpus, study = (results[name] for name in ("saliency", "answer", "corpus", "study"))
    lines["more"] = [
        *(results[name].to_terminal() for name in ("saliency", "rollout")),
        *(str(frame) for frame in (saliency.top(), answer.tokens(), answer.sources(hops=1), answer.matrix())),
        *(str(frame) for frame in (study.relations, results["games"].auc(), results["replies"].statistics())),
        repr(study.mask()), repr(corpus.saliency(1)), corpus.clouds(), results["audit"].sentence, str(corpus.verify()),
        repr(answer.of("Oslo")), repr(nbsal.clouds.rank(corpus, idf={})), nbsal.contrast("positive", "negative"),
    ]  # fmt: skip
    for name, view in views_of(results).items():
        view.wait()
        lines[name] = [repr(view), view.to_html(), view.to_html(interactive=True), view.to_png(), str(view.to_frame())]
        lines[name] += [view.status, view._repr_mimebundle_()[0]["text/html"]]
    return {name: [_plain(line) for line in each] for name, each in lines.items()}


def _plain(line):
    """A line as text, without the time that it took and the random names of styles."""
    text = base64.b64encode(line).decode() if isinstance(line, bytes) else line if isinstance(line, str) else repr(line)
    return re.sub(r'"_seconds": [^,]*|\bT_[0-9a-f]{5}', "", text)


def refused(calls):
    """What goes wrong in calls that need a model: the class, the package, the message."""
    found = {}
    for name, call in calls.items():
        try:
            call()
        except nbsal.errors.MissingPackage as error:
            assert isinstance(error, nbsal.errors.MissingExtra | ImportError)
            found[name] = [error.package, str(error)]
    return found


def needing_a_model(results):
    """Calls that need a model, or a method."""
    return {
        "nbsal.load": lambda: nbsal.load("demo/reviews"),
        "nbsal.Explainer": lambda: nbsal.Explainer(None, "gradcam"),
        "nbsal.answer": lambda: nbsal.answer(None, "Who?"),
        "nbsal.audit": lambda: nbsal.audit(None, TEXTS),
        "nbsal.GradCAM": lambda: nbsal.GradCAM(),
        "nbsal.evaluation.games": lambda: nbsal.evaluation.games({}, TEXTS),
        "nbsal.heads.study": lambda: nbsal.heads.study(None, []),
        "nbsal.corpus.explain": lambda: nbsal.corpus.explain(None, TEXTS, "out"),
        "nbsal.corpus.explain_replies": lambda: nbsal.corpus.explain_replies(None, TEXTS, "out"),
        "nbsal.methods.catalogue": lambda: nbsal.methods.catalogue.names(),
        "nbsal.testing": lambda: nbsal.testing.check("gradcam"),
        "Corpus.games": lambda: results["corpus"].games(),
    }


def statuses_without_threads(results):
    """The status of each view in a process that cannot start threads: after `wait`, and in an event loop."""

    def no_threads(thread):
        raise RuntimeError("can't start new thread")  # as in a page that runs Python itself

    async def look():
        views = views_of(results)
        await asyncio.sleep(0)
        return {f"{name} in a loop": view.status for name, view in views.items()}

    start, threading.Thread.start = threading.Thread.start, no_threads
    try:
        return {name: view.wait(120).status for name, view in views_of(results).items()} | asyncio.run(look())
    finally:
        threading.Thread.start = start


def without_torch(folder):
    """Open and show everything without the packages that run models; `python -m tests.saved_results` calls it."""
    sys.meta_path.insert(0, Blocked())
    results = opened(folder)
    outcome = {
        "statuses": statuses_without_threads(results),
        "written": written(results),
        "refused": refused(needing_a_model(results)),
    }
    assert not {name.partition(".")[0] for name in sys.modules} & {*MODEL_PACKAGES}
    (folder / "outcome.json").write_text(json.dumps(outcome))


if __name__ == "__main__":
    without_torch(Path(sys.argv[1]))
