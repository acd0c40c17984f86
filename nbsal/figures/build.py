"""One run of `python -m nbsal.figures`: its models, texts, time limit and stored results.

Without benchmark tables, the samples bundled with nbsal stand in for them, and every figure says so.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import nbsal
from nbsal import heads
from nbsal.evaluation import data
from nbsal.evaluation.cache import Cache, explain_texts
from nbsal.evaluation.clouds import Cloud
from nbsal.evaluation.groups import Groups, evaluate_groups
from nbsal.evaluation.results import Results, join_results
from nbsal.explain.explainer import Explainer
from nbsal.explain.saliency import Saliencies
from nbsal.figures.arguments import Models, NamedModel, class_numbers
from nbsal.figures.benchmark_tasks import BENCHMARK_TASKS
from nbsal.figures.store import BATCH_SIZE, Store
from nbsal.heads.counts import HeadStudy
from nbsal.model.subject import Subject
from nbsal.support.errors import InputError, TableMissing
from nbsal.support.validation import Text

TREEBANK_FILE = "ud_ewt/dev.conllu"
SHORTEST = 14  # tokens
CHECKED_TEXTS = 100  # on which a user's model must be right more often than chance
FEWEST_CHECKED = 20  # with fewer texts, chance alone decides


class OutOfTime(Exception):
    """The time limit of the run is over; everything finished so far is stored."""


@dataclass(frozen=True)
class TableTexts:
    """Texts of a table with their gold labels or answers, and a description of them for the figures."""

    table: str
    texts: list[Text]
    labels: list[int] | None
    answers: list[Any] | None
    description: str

    @property
    def source(self) -> tuple[str, str]:
        """The table and the description, for `source_note`."""
        return self.table, self.description


@dataclass
class Build:
    """One run: its output folder, models, data and time limit; `models` maps a table to the user's models for it.

    `texts` maps a table to the number of its texts, if this is not the default. Exhibits of one model show a table's
    first one; `variants` has one build for each.
    """

    out: Path
    full: bool = False
    minutes: float = float("inf")
    models: Models = field(default_factory=dict)
    texts: Mapping[str, int] = field(default_factory=dict)
    start: float = field(default_factory=time.monotonic)
    subjects: dict[NamedModel, Subject] = field(default_factory=dict)
    caches: dict[NamedModel, Cache] = field(default_factory=dict)
    row_counts: dict[str, int | None] = field(default_factory=dict)  # by table

    @property
    def has_benchmarks(self) -> bool:
        return bool(os.environ.get(data.FOLDER))

    @property
    def minutes_left(self) -> float:
        return self.minutes - (time.monotonic() - self.start) / 60

    def variants(self, table: str) -> "Iterator[Build]":
        """Yield a build for each of the user's models for a table, or this one."""
        for named in self.models.get(table, ()):
            yield replace(self, models={**self.models, table: [named]})
        if table not in self.models:
            yield self

    def panel(self, table: str, several: bool) -> str:
        """Return the heading of a table, with its model where `several` are shown."""
        return f"{self.name(table)}, {self.subject(table).name}" if several else self.name(table)

    def name(self, table: str) -> str:
        """Return the heading of a table; it names the samples if they stand in."""
        task = BENCHMARK_TASKS[table]
        return task.title if self.has_benchmarks else f"{task.sample} for {task.title}"

    def can_show(self, table: str) -> bool:
        """Whether there is a model for a table, and rows: its own, or samples that stand in for no other table."""
        if table not in self.models and not BENCHMARK_TASKS[table].demo:
            return False
        if not self.has_benchmarks:
            return bool(BENCHMARK_TASKS[table].sample) and table not in ("imdb", "yelp_polarity")
        if table not in self.row_counts:
            self.row_counts[table] = self.count(table)
        return bool(self.row_counts[table])

    def count(self, table: str) -> int | None:
        """Return how many texts a benchmark table has, or None if it is not available."""
        try:
            return len(data.load(table)) if self.has_benchmarks else None
        except TableMissing:
            return None

    def subject(self, table: str) -> Subject:
        """Return the model for a table, the user's own or the embedded one, with a head mask."""
        named = self._model(table)
        if not named.model:
            raise InputError(
                f"{BENCHMARK_TASKS[table].title} has no embedded model. Pass your own with --model {table}=ID.",
                argument="--model",
                value=table,
            )
        if named not in self.subjects:
            self.subjects[named] = nbsal.load(named.model, lm=named.lm)
            self._check_classes(table)
            if self.subjects[named].mask is None:
                self.subjects[named].mask = self.study(table).mask()
        return self.subjects[named]

    def _check_classes(self, table: str) -> None:
        """Refuse a user's model that is right no more often than chance: its classes are probably in another order."""
        subject, classes = self.subjects[self._model(table)], data.TABLES[table].labels
        if table not in self.models or not classes or not self.can_show(table):
            return
        if len(subject.labels) != len(classes):
            message = (
                f"--model {subject.name} has {len(subject.labels)} classes, but {BENCHMARK_TASKS[table].title} has "
                f"{len(classes)}: {', '.join(classes)}."
            )
            raise InputError(message, argument="--model", value=subject.name)
        rows = self.rows(table, max_texts=CHECKED_TEXTS)
        predicted = [saliency.prediction for saliency in Explainer(subject, "random").map(rows.texts, progress=False)]
        pairs = zip(predicted, rows.labels or [], strict=True)
        accuracy = sum(name == subject.labels[label] for name, label in pairs) / len(predicted)
        if accuracy <= 1 / len(classes) and len(predicted) >= FEWEST_CHECKED:
            message = (
                f"--model {subject.name} is right on {accuracy:.0%} of {rows.description}, no better than chance. If "
                f"it has the classes in another order, pass --labels {table}={','.join(classes)} in that order."
            )
            raise InputError(message, argument="--labels", value=table)

    def rows(self, table: str, skip_short: bool = False, max_texts: int | None = None) -> TableTexts:
        """Return texts of a table: all of them in a full run, otherwise always the same random sample.

        `max_texts` takes the place of the number that `texts` has for the table.
        """
        task = BENCHMARK_TASKS[table]
        filters: dict[str, Any] = (
            {"shortest": SHORTEST, "tokenizer": self.subject(table).tokenizer} if skip_short else {}
        )
        if table == "qqp":
            filters["duplicates_only"] = True
        frame = data.load(table if self.has_benchmarks else task.sample, **filters)
        total, default = len(frame), task.texts if self.has_benchmarks else task.sample_texts
        count = max_texts or self.texts.get(table) or (None if self.full else default)
        if count and count < total:
            frame = frame.sample(count, random_state=0)
        labels = self._class_numbers(table, frame["label"]) if "label" in frame else None
        answers = frame["answers"].tolist() if "answers" in frame else None
        source = data.TABLES[table].split if self.has_benchmarks else "bundled samples"
        length = f" with at least {SHORTEST} tokens" if skip_short else ""
        description = f"{self.name(table)} ({source}), {len(frame)} of {total} texts{length}"
        return TableTexts(table, data.texts(frame), labels, answers, description)

    def _class_numbers(self, table: str, labels: Any) -> list[int]:
        """Return gold labels as the model numbers its classes."""
        if table not in self.models:
            return [int(label) for label in labels]
        named = self._model(table)
        names = self.subjects[named].labels if named in self.subjects else self.subject(table).labels
        numbers = class_numbers(table, named, names)
        return [numbers[label] for label in labels]

    def describe_source(self, table: str, texts: str) -> str:
        if table in self.models:
            return f"{', '.join(named.model for named in self.models[table])} on {texts}"
        task = BENCHMARK_TASKS[table]
        remark = f" ({task.remark})" if task.remark and self.has_benchmarks else ""
        return f"{task.demo}{remark} on {texts}"

    def results(
        self, evaluation: str, rows: TableTexts, groups: Groups, evaluate: Callable[..., Results], **options: Any
    ) -> Results:
        """Evaluate groups of explainers on texts; each group is stored, and read in later runs."""
        folder = self.folder(rows.table) / f"{evaluation}-{self._source(rows.table)}-{len(rows.texts)}"
        paths = [folder / f"{name}.nbsal" for name in groups]
        if all(path.exists() for path in paths):
            return join_results([Results.load(path) for path in paths])
        self.check_time()
        options |= {"texts": rows.texts, "cache": self.cache(rows.table), "progress": False}
        results = evaluate_groups(folder, groups, partial(evaluate, **options), self.minutes_left)
        if results is None:
            raise OutOfTime
        return results

    def clouds(self, explainers: Mapping[str, Explainer], rows: TableTexts) -> dict[str, Cloud]:
        """Return the class clouds of each explainer; each is stored, and read in later runs."""
        store = Store(self.folder(rows.table))
        name = f"clouds-{self._source(rows.table)}-{len(rows.texts)}"

        def explained(label: str) -> Saliencies:
            self.check_time()
            return self.explanations({label: explainers[label]}, rows)[label]

        return {label: store.cloud(name, label, partial(explained, label)) for label in explainers}

    def explanations(self, explainers: Mapping[str, Explainer], rows: TableTexts) -> dict[str, Saliencies]:
        """Explain all texts; explanations that this run has computed before come from the cache."""
        runs = explain_texts(explainers, rows.texts, BATCH_SIZE, self.cache(rows.table), False, None)
        return {name: Saliencies(saliencies[0]) for name, saliencies in runs.items()}

    def study(self, table: str) -> HeadStudy:
        """Return what the heads of a table's model attend to on annotated parses; stored, and read in later runs."""
        named = self._model(table)
        path = self.folder(table) / f"study-{'ewt' if self.treebank else 'samples'}.json"
        if not path.exists():
            self.check_time()
            path.parent.mkdir(parents=True, exist_ok=True)
            subject = self.subjects.get(named) or nbsal.load(named.model, lm=named.lm)
            heads.study(subject, self.parses, progress=False).save(path)
        return HeadStudy.load(path)

    @cached_property
    def treebank(self) -> Path | None:
        """The English Web Treebank, if it is among the benchmark tables."""
        path = Path(os.environ.get(data.FOLDER, "")) / TREEBANK_FILE
        return path if self.has_benchmarks and path.is_file() else None

    @property
    def parses(self) -> Path:
        """The file of annotated parses: the treebank, or the bundled parses."""
        return self.treebank or Path(nbsal.samples.__file__).parent / "parses.conllu"

    def cache(self, table: str) -> Cache:
        """Return the cache of explanations of a table's model, shared within this run."""
        return self.caches.setdefault(self._model(table), Cache())

    def folder(self, table: str) -> Path:
        return self.out / "kept" / _slug(self._model(table).model)

    def check_time(self) -> None:
        """Raise OutOfTime if the time limit is over."""
        if self.minutes_left <= 0:
            raise OutOfTime

    def _model(self, table: str) -> NamedModel:
        """Return the user's first model for a table, or the embedded one."""
        return self.models[table][0] if table in self.models else NamedModel(BENCHMARK_TASKS[table].demo)

    def _source(self, table: str) -> str:
        """Return where the texts of a table come from, as a part of file names."""
        return table if self.has_benchmarks else _slug(BENCHMARK_TASKS[table].sample)


def _slug(name: str) -> str:
    return re.sub(r"[^\w.@-]+", "-", name).strip("-.") or "model"
