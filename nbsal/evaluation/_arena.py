"""Methods in worlds whose reasons are known: which of them names the reason first."""

from collections.abc import Sequence
from threading import Event
from typing import Any

import numpy as np

from nbsal.evaluation.curve import Curve
from nbsal.evaluation.makers import ExplainerOf, Methods, makers_of
from nbsal.evaluation.results import MetricInfo, Results
from nbsal.evaluation.worlds import WORLDS, World
from nbsal.support.errors import InputError, ModelError, UnknownName
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import as_list, checked, plural, positive_number

METRIC = "reasons named first"


@checked
def arena(
    methods: Methods,
    worlds: Any = ("classifiers", "notes"),
    size: int = 60,
    seed: int = 0,
    *,
    progress: Progress = True,
    cancel: Event | None = None,
) -> Results:
    """The share of what decides that has the highest scores, for each method in each world.

    `methods` is a catalogue name, a method, or a function from a subject to an `Explainer`; or several of them, as a
    dict that names them (without functions also as a list). `worlds` are names: "classifiers" (planted guards, by
    words), "notes" (replies of demo/notes, by
    words), "smollm2" and "injections" (replies of SmolLM2-135M-Instruct,
    by documents; they need the package of real/smollm2), or worlds of your own (`nbsal.evaluation.worlds.World`). Each
    has `size` cases, drawn by `seed`. Scores that tie count as their share. A method that cannot explain a world has
    no row there, and a note says why. `Results.ranks` says which methods differ beyond chance.

    >>> results = arena(["occlusion", "random"], "classifiers", size=26, progress=False)
    >>> results.ranks("classifiers")["rank"].to_dict()
    {'occlusion': 1, 'random': 2}
    """
    size, makers = positive_number(size, "size"), makers_of(methods, "methods")
    listed = [worlds] if isinstance(worlds, str | World) else as_list(worlds, "worlds", "must be names of worlds")
    chosen = [_world(world) for world in listed]
    curves, notes = dict[tuple[str, str], Curve](), list[str]()
    with Meter(len(chosen) * (1 + len(makers)), progress, cancel) as meter:
        for world in chosen:
            cases = world.draw(size, seed, meter)
            meter.step()
            if not cases:
                message = f"No case of the world {world.name!r} could be drawn with seed={seed}. Choose another seed."
                raise InputError(message, argument="worlds", value=world.name)
            notes += [f"{world.name}: {plural(len(cases), 'case')}", *world.notes()]
            for name, make in makers.items():
                try:
                    found = _found(world, make, cases, meter)
                except ModelError as error:
                    notes.append(f"{name} has no score for {world.name}: {error}")
                    continue
                curves[name, world.name] = Curve.from_values((1,), np.array(found)[None, None], range(len(cases)))
    names = [world.name for world in chosen]
    better, bounds = dict.fromkeys(names, "high"), dict.fromkeys(names, (0, 1))
    return Results(MetricInfo("world", "k", METRIC, better=better, bounds=bounds), curves, tuple(notes))


def _world(world: Any) -> World:
    if isinstance(world, World):
        return world
    by_name = {each.name: each for each in WORLDS}
    if world not in by_name:
        raise UnknownName("world", world, by_name)
    return by_name[world]()


def _found(world: World, make: ExplainerOf, cases: Sequence[Any], meter: Meter) -> list[float]:
    """What a method finds of the reasons of each case."""
    part, found = meter.part(1, len(cases)), list[float]()
    for case in cases:
        part.check()
        found.append(world.found(make, case))
        part.step()
    return found
