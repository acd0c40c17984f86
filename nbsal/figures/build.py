"""Edition: what a run of `python -m nbsal.figures` rests on, its models, its texts, and what is done already.

Without benchmark tables the shipped samples stand in for them, and every figure says so.
"""

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import nbsal
from nbsal import clouds, data, heads
from nbsal.clouds import Cloud
from nbsal.errors import InputError, TableMissing
from nbsal.evaluation import cache as remembering
from nbsal.evaluation.cache import Cache
from nbsal.evaluation.report import SHORTEST, Folder, Groups, Members
from nbsal.evaluation.results import Results, join_results
from nbsal.explainer import Explainer
from nbsal.figures.checkpoints import CHECKPOINTS
from nbsal.heads.statistics import HeadStudy
from nbsal.model.subject import Subject
from nbsal.saliency import Saliencies
from nbsal.validation import Text

PARSES = "ud_ewt/dev.conllu"
BATCH = 32  # texts


@dataclass(frozen=True)
class BenchmarkTask:
    """A benchmark table: the embedded model and the samples that stand in, and how many texts a quick run takes."""

    shown: str
    demo: str
    sample: str
    texts: int
    few: int


BENCHMARK_TASKS = {
    "sst2": BenchmarkTask("SST-2", "demo/reviews", "samples/reviews", 200, 12),
    "ag_news": BenchmarkTask("AG News", "demo/news", "samples/news", 40, 6),
    "imdb": BenchmarkTask("IMDB", "demo/reviews", "samples/reviews", 16, 8),
    "yelp_polarity": BenchmarkTask("Yelp", "demo/reviews", "samples/reviews", 30, 8),
    "mnli": BenchmarkTask("MNLI", "demo/nli", "samples/pairs", 60, 8),
    "squad": BenchmarkTask("SQuAD v1.1", "demo/answers", "samples/answers", 60, 12),
    "qqp": BenchmarkTask("QQP", "", "", 80, 0),
    "squad_v2": BenchmarkTask("SQuAD v2", "", "", 80, 0),
}
ZERO_SHOT = {"mnli": "zero-shot from SNLI", "imdb": "trained on SST-2", "yelp_polarity": "trained on SST-2"}
WEAK = {"squad": "trained on 400 of these questions only: weak, and they may be among those shown"}


class OutOfTime(Exception):
    """The minutes given are over; what is done is kept."""


@dataclass(frozen=True)
class NamedModel:
    """A model of the user's own, and the checkpoint whose LM head decodes it."""

    model: str
    lm: str | None = None


@dataclass(frozen=True)
class Rows:
    """Texts of a table with what is known of them, and what the figure says they are."""

    texts: list[Text]
    labels: list[int] | None
    answers: list[Any] | None
    said: str


@dataclass
class Build:
    """One run: where it writes, what it reads, and when it stops."""

    out: Path
    full: bool = False
    minutes: float = float("inf")
    models: Mapping[str, NamedModel] = field(default_factory=dict)  # by table
    started: float = field(default_factory=time.monotonic)
    subjects: dict[Any, Subject] = field(default_factory=dict)
    caches: dict[Any, Cache] = field(default_factory=dict)
    there: dict[str, bool] = field(default_factory=dict)  # whether a table is at hand

    @property
    def real(self) -> bool:
        """Whether there are benchmark tables to read."""
        return bool(os.environ.get(data.FOLDER))

    @property
    def left(self) -> float:
        """The minutes that are left."""
        return self.minutes - (time.monotonic() - self.started) / 60

    def name(self, table: str) -> str:
        """A table's heading."""
        bench = BENCHMARK_TASKS[table]
        return bench.shown if self.real else f"{bench.sample} for {bench.shown}"

    def has(self, table: str) -> bool:
        """Whether a table can be shown: with a model for it, and rows of its own or samples that no other table has."""
        if table not in self.models and not BENCHMARK_TASKS[table].demo:
            return False
        if not self.real:
            return bool(BENCHMARK_TASKS[table].sample) and table not in ("imdb", "yelp_polarity")
        if table not in self.there:
            self.there[table] = bool(self.count(table))
        return self.there[table]

    def count(self, table: str) -> int | None:
        """How many texts a benchmark table has; None where it is not at hand."""
        try:
            return len(data.load(table)) if self.real else None
        except TableMissing:
            return None

    def subject(self, table: str) -> Subject:
        """The model for a table: the user's own, or the embedded one; with a head mask."""
        named = self.models.get(table) or NamedModel(BENCHMARK_TASKS[table].demo)
        if not named.model:
            raise InputError(f"{BENCHMARK_TASKS[table].shown} has no embedded model: give one with --model {table}=ID.")
        if named not in self.subjects:
            self.subjects[named] = nbsal.load(named.model, lm=named.lm)
            if self.subjects[named].mask is None:
                self.subjects[named].mask = self.study(table).mask()
        return self.subjects[named]

    def rows(self, table: str, least: bool = False, most: int | None = None) -> Rows:
        """A table's texts: a sample of them drawn once for all, or all in a full run; `least` leaves out short ones."""
        bench = BENCHMARK_TASKS[table]
        filters: dict[str, Any] = {"shortest": SHORTEST, "tokenizer": self.subject(table).tokenizer} if least else {}
        if table == "qqp":
            filters["duplicates_only"] = True
        frame = data.load(table if self.real else bench.sample, **filters)
        count = most or (None if self.full else bench.texts if self.real else bench.few)
        whole = len(frame)
        if count and count < whole:
            frame = frame.sample(count, random_state=0)
        labels = frame["label"].tolist() if "label" in frame else None
        answers = frame["answers"].tolist() if "answers" in frame else None
        kind = f" of {SHORTEST} tokens or more" if least else ""
        source = data.TABLES[table].split if self.real else "shipped samples"
        return Rows(
            data.texts(frame), labels, answers, f"{self.name(table)} ({source}), {len(frame)} of {whole} texts{kind}"
        )

    def footing(self, table: str, said: str) -> str:
        """What a figure rests on: model and texts."""
        own = self.models.get(table)
        model = own.model if own else f"embedded {BENCHMARK_TASKS[table].demo}"
        notes = [] if own or not self.real else [n[table] for n in (ZERO_SHOT, WEAK) if table in n]
        return f"{model} on {said}{''.join(f'; {note}' for note in notes)}"

    def results(
        self, what: str, table: str, count: int, groups: Groups, evaluate: Callable[[Members], Results]
    ) -> Results:
        """Results by groups of explainers; those of an earlier run are read, new ones kept as they come."""
        folder = self.folder(table) / f"{what}-{self._source(table)}-{count}"
        stored = [folder / f"{name}.npz" for name in groups]
        if all(path.exists() for path in stored):
            return join_results([Results.load(path) for path in stored])
        self.check()
        kept = Folder(folder, self.left)
        found = kept.all(groups, evaluate)
        if kept.missing:
            raise OutOfTime
        return found

    def clouds(self, table: str, explainers: Mapping[str, Explainer], rows: Rows) -> dict[str, Cloud]:
        """Class clouds by explainer, kept as they come."""
        folder = self.folder(table) / f"clouds-{self._source(table)}-{len(rows.texts)}"
        folder.mkdir(parents=True, exist_ok=True)
        found = {}
        for name, explain in explainers.items():
            stored = folder / f"{_slug(name)}.json"
            if not stored.exists():
                self.check()
                cloud = clouds.rank(self.explained(table, {name: explain}, rows)[name])
                stored.write_text(json.dumps(cloud.weights), encoding="utf-8")
            found[name] = Cloud(json.loads(stored.read_text(encoding="utf-8")))
        return found

    def explained(self, table: str, explainers: Mapping[str, Explainer], rows: Rows) -> dict[str, Saliencies]:
        """Explanations of all texts; what games or clouds of this run explained is not explained again."""
        cache = self.cache(table)
        found = remembering.explain_texts(explainers, rows.texts, BATCH, cache, False, None)
        return {name: Saliencies(runs[0]) for name, runs in found.items()}

    def study(self, table: str) -> HeadStudy:
        """What the heads of a table's model look at, on annotated parses; kept."""
        named = self.models.get(table) or NamedModel(BENCHMARK_TASKS[table].demo)
        stored = self.folder(table) / f"study-{'ewt' if self.treebank else 'samples'}.json"
        if not stored.exists():
            self.check()
            stored.parent.mkdir(parents=True, exist_ok=True)
            subject = self.subjects.get(named) or nbsal.load(named.model, lm=named.lm)
            heads.study(subject, self.parses, progress=False).save(stored)
        return HeadStudy.load(stored)

    @cached_property
    def treebank(self) -> Path | None:
        """The English Web Treebank, if it lies among the tables."""
        path = Path(os.environ.get(data.FOLDER, "")) / PARSES
        return path if self.real and path.is_file() else None

    @property
    def parses(self) -> Path:
        """The parses at hand: that treebank, or those shipped."""
        return self.treebank or Path(nbsal.samples.__file__).parent / "parses.conllu"

    def cache(self, table: str) -> Cache:
        """What explainers of a table's model have said in this run."""
        return self.caches.setdefault(self.models.get(table) or BENCHMARK_TASKS[table].demo, Cache())

    def folder(self, table: str) -> Path:
        """Where results of a table's model are kept."""
        own = self.models.get(table)
        return self.out / "kept" / _slug(own.model if own else BENCHMARK_TASKS[table].demo)

    def check(self) -> None:
        """Stop where the time is up."""
        if self.left <= 0:
            raise OutOfTime

    def _source(self, table: str) -> str:
        """Where a table's texts come from, as a part of file names."""
        return table if self.real else _slug(BENCHMARK_TASKS[table].sample)


def parse_models(models: list[str], lms: list[str]) -> dict[str, NamedModel]:
    """Models by table: "sst2=folder", or the name of a checkpoint of Table 6, which knows its table.

    >>> parse_models(["textattack/bert-base-uncased-SST-2"], ["bert-base-uncased"])["sst2"].lm
    'bert-base-uncased'
    """
    if len(lms) not in (0, 1, len(models)):
        raise InputError(f"Give --lm once, or once for each of the {len(models)} models.")
    found: dict[str, NamedModel] = {}
    for at, given in enumerate(models):
        table, sign, source = given.partition("=")
        tables = (
            [table]
            if sign and table in BENCHMARK_TASKS
            else [one.table for one in CHECKPOINTS if one.repository == given]
        )
        if not tables:
            raise InputError(
                f"--model {given} does not say which table it is for: write --model TABLE={given} with a TABLE among "
                f"{', '.join(BENCHMARK_TASKS)}."
            )
        lm = None if not lms else lms[at % len(lms)]
        found |= dict.fromkeys(tables, NamedModel(source if sign and table in BENCHMARK_TASKS else given, lm))
    return found


def _slug(name: str) -> str:
    return re.sub(r"[^\w.@-]+", "-", name).strip("-.") or "model"
