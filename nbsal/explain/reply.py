"""A reply explained: what was asked is read, the reply is read or written, scored and checked."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np

from nbsal.ablation.engine import Ablation
from nbsal.ablation.served import rewriting
from nbsal.explain.answer import Answer
from nbsal.explain.citations.cited import WRITTEN, without_unknown_marks
from nbsal.explain.citations.subsets import as_table, citable, first_subsets
from nbsal.explain.prompt import generate as writing
from nbsal.explain.prompt.generate import Generated
from nbsal.explain.prompt.prompts import check_length, skips_template, tokenize_reply, with_reply
from nbsal.explain.prompt.reading import Prompt, PromptWithReply, TokenStatistics
from nbsal.explain.prompt.requests import check_reply_ids, read_asked
from nbsal.explain.prompt.sources import PLAIN, Source
from nbsal.explain.reply_settings import ReplySettings, plain_settings
from nbsal.explain.reply_ways import check_runs_here, check_written, measure_ways, passes_of
from nbsal.explain.scoring import served
from nbsal.explain.scoring.hops import SUMMED_HOPS, no_rows
from nbsal.explain.scoring.reply_experiment import ReplyExperiment, hide_units
from nbsal.explain.scoring.rows import Rows, default_number, score_rows
from nbsal.explain.scoring.running import Explains, ReplyMethod
from nbsal.explain.scoring.statistics import token_statistics
from nbsal.explain.sentences.evidence import evidence_level, measure, subsets
from nbsal.explain.sentences.outcomes import WAYS
from nbsal.methods.base import REGISTER, Method
from nbsal.methods.default import ReplySize, check_reply_fits
from nbsal.methods.perturbation import Perturbation
from nbsal.model.served.calls import CallEstimate
from nbsal.model.served.queries import Needs
from nbsal.model.served.server import Server
from nbsal.model.subject import Subject
from nbsal.model.target import AGREEMENT, DIVERGENCE
from nbsal.support.errors import Cancelled, InputError, ModelError, OverBudget, ServerError
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import plural
from nbsal.support.warning import warn_once

STOPS = (Cancelled, ServerError, OverBudget)  # errors that carry what was finished before them
# Of a reading, in its provenance.
ORIGIN = (
    "rendered", "documents", "layout", "rewritten", "not read", "template", "template settings", "note", "reply",
    "generate", "seed", WRITTEN,
)  # fmt: skip


def explain_reply(
    explainers: Mapping[str, Explains], asked: Any, reply: Any, settings: ReplySettings
) -> dict[str, Answer]:
    """Why a model replies what it does, by each of some explainers of it; see `nbsal.answer`."""
    subject = next(iter(explainers.values())).subject
    if settings.check == WAYS:
        check_runs_here(subject)
    if (server := served.server_of(subject)) is not None:  # count before anything is sent
        server.caller.check(plan_reply(explainers, asked, reply, settings).calls)
    methods = [explainer.method for explainer in explainers.values()]
    return explain_read(explainers, *read(subject, asked, reply, settings, methods=methods), settings)


def explain_read(
    explainers: Mapping[str, Explains], reading: PromptWithReply, origin: dict[str, Any], settings: ReplySettings
) -> dict[str, Answer]:
    """The answers, with what hiding the sources does, for a prompt and a reply that were read already."""
    subject = next(iter(explainers.values())).subject
    level = evidence_level(reading, settings.unit)
    ablation = Ablation(subject, settings.batch_size)
    experiment = hide_units(ablation, reading, reading.units(level), number=settings.number)
    steps = len(reading.reply_ids) * len(explainers)
    in_ways = settings.check == WAYS
    if in_ways:
        check_written(reading.prompt)
    passes_of_check = bool(settings.check) * len(subsets(experiment)) + (passes_of(experiment) if in_ways else 0)
    with Meter(steps + passes_of_check, settings.progress, settings.cancel) as meter, ablation.reading_once():
        answers = explain_reading(explainers, reading, origin, settings, meter, ablation)
        if not settings.check or settings.number == AGREEMENT:
            return answers
        try:
            evidence = measure(experiment, meter, level)
            if in_ways and evidence is not None:
                evidence = measure_ways(experiment, evidence, meter)
        except STOPS as error:
            error.partial = answers.get("", answers)
            raise
    checked = {name: replace(answer, evidence=evidence) for name, answer in answers.items()}
    return checked if settings.hops == 0 else {name: answer.check() for name, answer in checked.items()}


def explain_again(
    answer: Answer, explainer: Explains, progress: Progress = False, cancel: Event | None = None
) -> Answer:
    """Explain the reply of an answer by another explainer, without reading or writing it again."""
    origin = {name: answer.provenance[name] for name in ORIGIN if name in answer.provenance}
    level = answer.provenance.get("unit", "sentence")
    unit = [unit.span for unit in answer.units] if level == "spans" else level
    origin["drawn"] = answer.statistics.drawn
    with Meter(len(answer.ids), progress, cancel) as meter:
        settings = ReplySettings(unit=unit, number=AGREEMENT if answer.number == AGREEMENT else None)
        ablation = None if answer.running is None else answer.running.experiment.ablation
        return explain_reading({"": explainer}, answer.reading, origin, settings, meter, ablation)[""]


def reply_again(explainer: Explains, asked: Any, sources: Sequence[Source], **arguments: Any) -> Answer:
    """Explain a new reply to what is asked: all of some sources but those that were struck out, which stay listed."""
    settings = ReplySettings.parse(explainer.subject.tokenizer, arguments)
    reading, origin = read(explainer.subject, asked, None, settings, methods=[explainer.method])
    reading = replace(reading, prompt=reading.prompt.within(sources))
    with Meter(len(reading.reply_ids), settings.progress, settings.cancel) as meter:
        return explain_reading({"": explainer}, reading, origin, settings, meter)[""]


def read(
    subject: Subject,
    asked: Any,
    reply: Any,
    settings: ReplySettings,
    written: Generated | None = None,
    methods: Sequence[Method] = (),
) -> tuple[PromptWithReply, dict[str, Any]]:
    """The prompt with the reply, and where the reply is from, for the provenance.

    `written` is what the model has already written with these settings. Before it writes, it is checked that the
    scores by these methods will fit into memory.
    """
    prompt = read_asked(subject, asked, settings)
    origin: dict[str, Any] = {"rendered": prompt.text}
    if prompt.source_size:
        origin["reply begins with"] = list(prompt.tokens[prompt.source_size :])
    if prompt.placement:
        origin["documents"] = prompt.placement
        origin |= {} if settings.layout == PLAIN else {"layout": settings.layout}
    for status in ("rewritten", "not read"):
        if names := [name for name, s in zip(prompt.names, prompt.sources, strict=True) if s.status == status]:
            origin[status] = names
    if not isinstance(asked, str):
        used = settings.template or subject.tokenizer.chat_template
        origin["template"] = hashlib.sha256(str(used).encode()).hexdigest()
        if settings.template_settings:
            origin["template settings"] = plain_settings(settings.template_settings)
    elif served.server_of(subject) is None and skips_template(subject.tokenizer, asked):
        origin["note"] = "The prompt was read as it is. The model has a chat template, which messages would use."
        warn_once(
            subject.model,
            "chat template",
            f"{subject.name} has a chat template, but the prompt is a text, which is read as it is. For a reply as in "
            'a chat, ask nbsal.answer(subject, [{"role": "user", "content": ...}]).',
        )
    if reply is None:
        if (server := served.server_of(subject)) is not None:
            meter = Meter(None, cancel=settings.cancel)
            text = served.write(server, prompt, settings.generate, settings.seed, meter, settings.number)
            if settings.on_token is not None:
                settings.on_token(text)
            (ids, _), drawn = tokenize_reply(subject, prompt, text), None
        else:
            if written is None:
                check_reply_fits(subject, methods, size_before(prompt, settings))
            generated = written or writing.generate(subject, prompt, settings)
            ids, drawn = generated.ids, generated.drawn
        recorded = plain_settings(settings.generate)
        origin |= {"reply": "generated", "generate": recorded, "seed": settings.seed}
    else:
        by_text = isinstance(reply, str)
        if not by_text:
            served.check_ids(served.server_of(subject), reply)
        if by_text and (known := without_unknown_marks(subject.tokenizer, prompt, reply)) != reply:
            origin[WRITTEN], reply = reply, known
        ids, way = tokenize_reply(subject, prompt, reply) if by_text else (reply, "as ids")
        ids, drawn = check_reply_ids(subject, prompt, ids), None
        origin |= {"reply": f"given {'as text, read ' if by_text else ''}{way}"}
    reading = with_reply(subject, prompt, ids)
    check_length(subject, prompt, len(reading.reply_ids), "asked", asked)
    if all(reading.reply_special):
        message = "The reply has special tokens only. Pass another reply, or other settings of generate."
        raise InputError(message, argument="reply", value=reply)
    return reading, origin | {"drawn": drawn}


def size_of(reading: PromptWithReply) -> ReplySize:
    """What the choice of a method depends on."""
    return ReplySize(len(reading.row), len(reading.reply_ids), len(reading.units("sentence")))


def size_before(prompt: Prompt, settings: ReplySettings) -> ReplySize:
    """The same with the longest reply that the model may write."""
    most = int(settings.generate["max_new_tokens"])
    return ReplySize(len(prompt.ids) + most, most, len(prompt.units("sentence")), written=False)


def explain_reading(
    explainers: Mapping[str, Explains],
    reading: PromptWithReply,
    origin: dict[str, Any],
    settings: ReplySettings,
    meter: Meter,
    ablation: Ablation | None = None,
) -> dict[str, Answer]:
    """An answer by each explainer of one model, for a prompt and a reply that were read already.

    What methods run with parts left out is kept in the `ablation`. `meter` counts the tokens of the reply once for each
    explainer. A cancelled call keeps the tokens that were explained: its error has the answers as `partial`, with zeros
    as the scores of all other tokens; of an explainer with a blank name, its answer alone.
    """
    subject, origin = next(iter(explainers.values())).subject, dict(origin)
    ablation = ablation or Ablation(subject, settings.batch_size)
    runnings = _runnings(explainers, reading, settings, ablation)
    check_reply_fits(subject, [running.method for running in runnings.values()], size_of(reading))
    drawn = origin.pop("drawn", None)
    try:
        statistics = token_statistics(ablation, reading, drawn, settings.number)
    except STOPS as error:
        error.partial = reading.reply
        raise
    rows = {name: Rows.empty(running) for name, running in runnings.items()}
    unit = reading.prompt.default_unit if settings.unit is None else settings.unit
    level = unit if isinstance(unit, str) else "spans"

    def answers() -> dict[str, Answer]:
        return {
            name: _answer(running, rows[name], statistics, origin | {"unit": level, "number": running.number})
            for name, running in runnings.items()
        }

    try:
        score_rows(runnings, rows, meter, settings.batch_size)
    except STOPS as error:
        error.partial = answers()
        if "" in runnings:  # one explainer, without a name
            error.partial = error.partial[""]
        raise
    return {name: answer.through(settings.hops) for name, answer in answers().items()}


def _runnings(
    explainers: Mapping[str, Explains], reading: PromptWithReply, settings: ReplySettings, ablation: Ablation
) -> dict[str, ReplyMethod]:
    """What explains the reply, by name; methods that hide units in the same way share the runs."""
    units, experiments = reading.units(settings.unit), dict[str | int, ReplyExperiment]()
    runnings = {}
    if settings.number is not None:
        served.check_number(next(iter(explainers.values())).subject, settings.number)
    for name, explainer in explainers.items():
        method = explainer.method
        way: str | int = "remove"
        if settings.number == DIVERGENCE and not isinstance(method, Perturbation):
            raise _hides_nothing(method)
        if isinstance(method, Perturbation):
            way = method.way
            if settings.hops != 0:
                raise no_rows(method.name, settings.hops)
            if len(units) < method.fewest_units:
                message = (
                    f"{method.name} needs {plural(method.fewest_units, 'unit')} or more to hide, but at "
                    f"unit={settings.unit!r} the prompt has {len(units)}. Choose a smaller unit."
                )
                raise InputError(message, argument="unit", value=settings.unit)
        if way not in experiments:
            experiments[way] = hide_units(ablation, reading, units, way, settings.number)
        number = settings.number or default_number(explainer)
        runnings[name] = ReplyMethod(explainer, reading, number, units, experiments[way])
    return runnings


def plan_reply(explainers: Mapping[str, Explains], asked: Any, reply: Any, settings: ReplySettings) -> CallEstimate:
    """The most calls that explaining a reply needs, all of them known before the reply is."""
    subject = next(iter(explainers.values())).subject
    server = served.server_of(subject)
    if server is None:
        message = f"{subject.name} runs here, without calls. Only a model behind an nbsal.Endpoint has a plan of them."
        raise InputError(message, argument="subject", value=subject)
    return server.plan([needs_of(server, explainers, asked, reply, settings)])


def needs_of(
    server: Server, explainers: Mapping[str, Explains], asked: Any, reply: Any, settings: ReplySettings
) -> Needs:
    """What explaining a reply asks the server."""
    subject, name = next(iter(explainers.values())).subject, ""
    prompt = read_asked(subject, asked, settings)
    if reply is None:
        reply, name = served.written(server, prompt, settings.generate, settings.seed)
    unwritten = name if reply is None else ""
    ids = tokenize_reply(subject, prompt, reply)[0] if isinstance(reply, str) else served.check_ids(server, reply)
    reading = with_reply(subject, prompt, prompt.ids[:1] if unwritten else check_reply_ids(subject, prompt, ids))
    ablation = Ablation(subject)
    runnings = _runnings(explainers, reading, settings, ablation)
    tables = [(running.experiment, running.coalitions(running.method)) for running in runnings.values()]  # type: ignore[arg-type]
    agreement = settings.number == AGREEMENT
    if settings.check and not agreement:
        check = hide_units(ablation, reading, reading.units(evidence_level(reading, settings.unit)))
        tables.append((check, subsets(check)))
    if settings.citations and (units := citable(reading.prompt)):
        stays = first_subsets(tuple(range(1, len(units) + 1)))
        tables.append((hide_units(ablation, reading, units), as_table(len(units), stays)))
    queries = [experiment.query(row) for experiment, table in tables for row in np.unique(table, axis=0)]
    if not agreement:
        queries.append(served.whole(server, reading))
    longest = int(settings.generate["max_new_tokens"]) if unwritten else 0
    again = None if unwritten else rewriting(len(reading.reply_ids))
    return Needs(queries, unwritten, longest, agreement, again)


def _hides_nothing(method: Method) -> InputError:
    """The error for a divergence that a method cannot explain."""
    names = [name for name, kind in REGISTER.items() if isinstance(kind, type) and issubclass(kind, Perturbation)]
    message = (
        f"number={DIVERGENCE!r} compares what is said with and without units, but {method.name} hides none. "
        f"Methods that do: {', '.join(names)}."
    )
    return InputError(message, argument="number", value=DIVERGENCE)


def _answer(running: ReplyMethod, rows: Rows, statistics: TokenStatistics, origin: dict[str, Any]) -> Answer:
    explainer, method = running.explainer, running.method
    if not np.isfinite(rows.scores.columns).all():
        message = f"Some scores of {explainer.subject.name} are NaN or infinite. Load it with dtype='float32'."
        raise ModelError(message, part="scores")
    provenance = explainer.provenance | origin
    if (server := served.server_of(explainer.subject)) is not None:
        provenance |= server.provenance
    if isinstance(method, Perturbation):
        subsets = {subset.tobytes() for subset in running.coalitions(method)}
        provenance |= {"parameters": method.parameters(), "hidden": running.experiment.hidden, "subsets": len(subsets)}
    provenance |= rows.numbers
    if method.averages_span:
        provenance["span"] = SUMMED_HOPS if method.sums_hops else "averaged"
    if rows.explained < len(rows.scores.columns):
        provenance["explained"] = rows.explained
    return Answer(
        reading=running.reading,
        score_matrix=rows.scores,
        statistics=statistics,
        units=tuple(running.units),
        method=method.name,
        number=running.number,
        linear=method.linear,
        provenance=provenance,
        running=running,
    )
