"""The arguments of `python -m nbsal.figures`, all checked before any work starts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbsal.evaluation import data
from nbsal.figures.benchmark_tasks import BENCHMARK_TASKS
from nbsal.figures.checkpoints import CHECKPOINTS
from nbsal.model.loading.checkpoint import NO_SUCH_MODEL, is_missing_folder
from nbsal.support.errors import InputError, UnknownName

COUNT = re.compile(r"[1-9][0-9]{0,8}")  # Python refuses to read thousands of digits


@dataclass(frozen=True)
class NamedModel:
    """A model of the user, the pretrained checkpoint whose LM head decodes it, and the order of its classes."""

    model: str
    lm: str | None = None
    labels: tuple[str, ...] | None = None


Models = Mapping[str, Sequence[NamedModel]]  # by table


def parse_models(models: Sequence[str], lms: Sequence[str], labels: Sequence[str] = ()) -> dict[str, list[NamedModel]]:
    """Map each table to its models: from "sst2=folder", or from the name of a checkpoint of Mask-LRP's Table 6.

    >>> parse_models(["textattack/bert-base-uncased-SST-2"], ["bert-base-uncased"])["sst2"][0].lm
    'bert-base-uncased'
    """
    if len(lms) not in (0, 1, len(models)):
        message = (
            f"There are {len(lms)} values of --lm for {len(models)} values of --model. Pass --lm once for all models, "
            "or once per model."
        )
        raise InputError(message, argument="--lm", value=lms)
    orders = _parse_labels(labels)
    named_models: dict[str, list[NamedModel]] = {}
    for number, argument in enumerate(models):
        lm = lms[number % len(lms)] if lms else None
        tables, source = _tables_of(argument)
        for name, value in (("--model", source), ("--lm", lm)):
            if value:
                check_source(name, value)
        for table in tables:
            named_models.setdefault(table, []).append(NamedModel(source, lm, orders.get(table)))
    for table in orders:
        if table not in named_models:
            message = f"--labels {table}=... says how a model orders the classes. Pass the model, --model {table}=ID."
            raise InputError(message, argument="--labels", value=table)
    return named_models


def parse_texts(texts: Sequence[str]) -> dict[str, int]:
    """The number of texts by table, from "sst2=100".

    >>> parse_texts(["sst2=100", "imdb=8"])
    {'sst2': 100, 'imdb': 8}
    """
    counts = {}
    for argument in texts:
        table, _, count = argument.partition("=")
        if table not in BENCHMARK_TASKS:
            raise UnknownName("--texts", table, BENCHMARK_TASKS, f"--texts {argument}: unknown table {table!r}.")
        if not COUNT.fullmatch(count):
            message = f"--texts {argument:.60}: write TABLE=N with the number of texts, such as {table}=100."
            raise InputError(message, argument="--texts", value=argument)
        counts[table] = int(count)
    return counts


def check_source(argument: str, source: str) -> None:
    """Refuse a path that leads nowhere, which would otherwise be looked for on the hub."""
    folder = Path(source).parent  # beside other folders, a name that is none of them is more likely mistyped
    is_mistyped = folder != Path() and folder.is_dir() and not Path(source).exists()
    if is_missing_folder(source) or (is_mistyped and not source.startswith("demo/")):
        raise InputError(f"{argument} {source}: {NO_SUCH_MODEL}", argument=argument, value=source)


def check_folders(out: Path, tables: Path | None, minutes: float) -> None:
    """Refuse an output folder that is a file, and tables that are not there."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file. Pass a folder.", argument="--out", value=out)
    if tables is not None:
        if not tables.is_dir():
            raise InputError(f"--data {tables}: there is no such folder.", argument="--data", value=tables)
        if not any((tables / name).is_dir() for name in data.TABLES):
            message = f"--data {tables} has none of the folders {', '.join(data.TABLES)}."
            raise InputError(message, argument="--data", value=tables)
    if not minutes >= 0:
        raise InputError(f"--minutes must be 0 or more, not {minutes:g}.", argument="--minutes", value=minutes)


def _tables_of(argument: str) -> tuple[list[str], str]:
    """The tables that a model is for, and where it is."""
    table, separator, source = argument.partition("=")
    if separator:
        if table not in BENCHMARK_TASKS:
            raise UnknownName("--model", table, BENCHMARK_TASKS, f"--model {argument}: unknown table {table!r}.")
        return [table], source
    tables = [checkpoint.table for checkpoint in CHECKPOINTS if checkpoint.repository == argument]
    if not tables:
        message = (
            f"--model {argument} does not name its table. Write --model TABLE={argument}, where TABLE is one of: "
            f"{', '.join(BENCHMARK_TASKS)}."
        )
        raise InputError(message, argument="--model", value=argument)
    return tables, argument


def _parse_labels(labels: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The order of classes by table, from "mnli=contradiction,entailment,neutral"."""
    orders = {}
    for argument in labels:
        table, _, names = argument.partition("=")
        classes = data.TABLES[table].labels if table in BENCHMARK_TASKS else ()
        order = tuple(name.strip() for name in names.split(","))
        if not classes or sorted(order) != sorted(classes):
            example = ",".join(classes) if classes else "negative,positive"
            message = (
                f"--labels {argument}: write TABLE=CLASS,CLASS,... with each class once, in the order of the model's "
                f"outputs, such as {table if classes else 'sst2'}={example}."
            )
            raise InputError(message, argument="--labels", value=argument)
        orders[table] = order
    return orders


def class_numbers(table: str, named: NamedModel | None, names: Sequence[str]) -> list[int]:
    """For each class of a table, the number that the model has for it.

    The order is the one of `--labels`, or that of the model's own class names if these are the table's; models without
    such names are assumed to have the table's order.

    >>> class_numbers("sst2", None, ["positive", "negative"])
    [1, 0]
    """
    classes = [name.lower() for name in data.TABLES[table].labels]
    order = list(named.labels) if named and named.labels else list(names)
    lower = [name.lower() for name in order]
    return [lower.index(name) for name in classes] if sorted(lower) == sorted(classes) else list(range(len(classes)))
