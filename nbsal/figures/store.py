"""Results in a folder: what is stored there is loaded, and not computed again."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from nbsal.evaluation.cache import Cache, explain_texts
from nbsal.evaluation.clouds import Cloud, rank
from nbsal.evaluation.results import Results, join_results
from nbsal.explain.explainer import Explainer
from nbsal.explain.saliency import Saliency
from nbsal.support.errors import InputError
from nbsal.support.validation import Text, checked

BATCH_SIZE = 32  # texts
UNSAFE = re.compile(r"[^\w.@%, -]+")  # in the name of a file
Members = Mapping[str, Explainer | Sequence[Explainer]]


@checked
@dataclass(frozen=True)
class Store:
    """A folder of results with one file for each explainer, so that an interrupted evaluation resumes.

    `cache` shares explanations and forward passes between evaluations of one model.

    >>> import tempfile, nbsal
    >>> store = Store(Path(tempfile.mkdtemp()))
    >>> explainers = {"gae": nbsal.Explainer(nbsal.load("demo/reviews"), "gae")}
    >>> results = store.results("two texts", nbsal.evaluation.faithfulness, explainers, texts=["A joy.", "A bore."])
    >>> results.explainers
    ['gae']
    >>> [path.name for path in store.folder.iterdir()]
    ['two texts-gae.nbsal']
    """

    folder: Path
    cache: Cache = field(default_factory=Cache)

    def results(self, name: str, evaluate: Callable[..., Results], explainers: Members, **settings: Any) -> Results:
        """Evaluate each explainer whose results are not stored, and join the results of all.

        `name` names the evaluation and its texts. `evaluate` is a function of `nbsal.evaluation`, and `settings` are
        its arguments.
        """
        if not explainers:
            raise InputError("explainers is empty. Pass at least one.", argument="explainers", value=explainers)
        paths = {label: self.path(name, label, "nbsal") for label in explainers}
        for label, path in paths.items():
            if not path.exists():
                evaluate({label: explainers[label]}, cache=self.cache, progress=False, **settings).save(path)
        return join_results([Results.load(path) for path in paths.values()])

    def clouds(self, name: str, explainers: Mapping[str, Explainer], texts: Iterable[Text]) -> dict[str, Cloud]:
        """Class tokens of each explainer, from its explanations of the texts."""
        rows = list(texts)
        return {label: self.cloud(name, label, partial(self._explained, e, rows)) for label, e in explainers.items()}

    def cloud(self, name: str, label: str, explain: Callable[[], Iterable[Saliency]]) -> Cloud:
        """Class tokens of one explainer; `explain` computes the explanations if its cloud is not stored."""
        path = self.path(name, label, "json")
        if not path.exists():
            path.write_text(json.dumps(rank(explain()).weights), encoding="utf-8")
        return Cloud(json.loads(path.read_text(encoding="utf-8")))

    def _explained(self, explainer: Explainer, texts: Sequence[Text]) -> list[Saliency]:
        """Explanations of the texts; the games of the same texts leave theirs in the cache."""
        return explain_texts({"": explainer}, texts, BATCH_SIZE, self.cache, False, None)[""][0]

    def path(self, name: str, label: str, ending: str) -> Path:
        """The file of one explainer."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{UNSAFE.sub('-', f'{name}-{label}')}.{ending}"
