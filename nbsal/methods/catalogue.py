"""The catalogue of methods: names, settings, papers, costs and the properties of their scores."""

import inspect
import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any

from nbsal.methods import (
    alti,
    attention,
    decoding,
    decompx,
    gradient,
    ifr,
    paths,
    perturbation,
    plugins,
    propagation,
    shapley,
    surrogates,
)
from nbsal.methods.base import REGISTER, Method, describe
from nbsal.methods.perturbation import TRIALS
from nbsal.methods.reference import allennlp, published, thermostat
from nbsal.passes import trace
from nbsal.support.errors import InputError, NbsalError, UnknownName
from nbsal.support.lazy import pandas
from nbsal.support.validation import checked, is_iterable

# Importing a family registers its methods; lists have them in this order, whatever was imported first.
FAMILIES = (
    attention, alti, gradient, decoding, decompx, ifr, paths, perturbation, propagation, shapley, surrogates, allennlp,
    published, thermostat,
)  # fmt: skip


def names() -> list[str]:
    """List every name that `Explainer(subject, name)` takes: nbsal's own, reference variants, those of other packages.

    >>> "decoded-gradcam" in names()
    True
    """
    families = [family.__name__ for family in FAMILIES]

    def place(name: str) -> tuple[bool, int]:
        module = REGISTER[name].__module__
        return "@" in name, families.index(module) if module in families else len(families)

    offered = plugins.offered()
    return [*sorted((name for name in REGISTER if name not in offered), key=place), *offered]


@checked
def create(name: str, **options: Any) -> Method:
    """Create the method of that name with those settings.

    >>> create("decoded-gradcam", layer=4).layer
    4
    """
    if name not in REGISTER:
        if name not in plugins.offered():
            raise UnknownName("method", name, names(), where="`nbsal methods` lists")
        REGISTER[name] = plugins.load(name)
    settings = _settings(name) if options else []
    for option, value in options.items():
        if option not in settings:
            choice = f"Its settings: {', '.join(settings)}." if settings else "It has no settings."
            raise InputError(f"{name} has no setting {option!r}. {choice}", argument=option, value=value)
    return _construct(name, **options)


def _settings(name: str) -> list[str]:
    """The names of a method's settings: from its signature if it has no default for some of them."""
    try:
        return list(_construct(name).parameters())
    except NbsalError:
        return list(inspect.signature(REGISTER[name]).parameters)


def _construct(name: str, **options: Any) -> Method:
    """The method of that name with those settings; an InputError says what went wrong in one of another package."""
    if plugins.is_own(name):
        return REGISTER[name](**options)
    try:
        method = REGISTER[name](**options)
        dict(method.parameters())  # which every list of methods shows
    except NbsalError:
        raise
    except Exception as error:  # code of others
        package = plugins.origin(name) or REGISTER[name].__module__
        problem = f"The method {name!r} of {package} cannot be created ({type(error).__name__}: {error})."
        raise InputError(problem, argument="method", value=name) from error
    return method


def every_method() -> dict[str, Method]:
    """Every method with its default settings, by name; without those of other packages that cannot be created.

    >>> every_method()["gradcam"]
    GradCAM(layer=None)
    """
    methods: dict[str, Method] = {}
    for name in names():
        try:
            methods[name] = create(name)
        except NbsalError as error:
            if plugins.is_own(name):
                raise
            _warn_once(str(error))
    return methods


@cache
def _warn_once(problem: str) -> None:
    """Warn of a method that cannot be created, once a process: each view lists the methods."""
    warnings.warn(problem, stacklevel=3)


def name_methods(methods: Any) -> Mapping[str, str | Method]:
    """Methods by name: a dict as it is, a list by the names of its methods.

    >>> list(name_methods(["gradcam", "simple"]))
    ['gradcam', 'simple']
    """
    if isinstance(methods, Mapping):
        return methods
    if not is_iterable(methods):
        message = f"methods must be a list of names or instances, or a dict that names them, not {methods!r:.60}."
        raise InputError(message, argument="methods", value=methods)
    instances = [as_method(method) for method in methods]
    named = {method.name: method for method in instances}
    if len(named) < len(instances):
        message = "Two methods have the same name. Name them with a dict: {'layer 3': Decoded(...), ...}."
        raise InputError(message, argument="methods", value=methods)
    return named


def as_method(method: Any, **options: Any) -> Method:
    """A method from its name and settings, or an instance as it is.

    >>> as_method("gradcam", layer=2)
    GradCAM(layer=2)
    """
    if isinstance(method, str):
        created: Method = create(method, **options)
        return created
    if not isinstance(method, Method):
        message = f"method must be a catalogue name or an instance such as nbsal.GradCAM(), not {method!r:.60}."
        raise InputError(message, argument="method", value=method)
    if options:
        message = f"Pass settings to the method itself: {type(method).__name__}({', '.join(options)}=...)."
        raise InputError(message, argument=next(iter(options)), value=next(iter(options.values())))
    return method


def table() -> "pandas.DataFrame":
    """Tabulate the methods: family, what each needs, paper, cost, properties of its scores, and default settings.

    >>> table().loc["gradcam", "paper"]
    'Selvaraju et al. 2017'
    """
    rows = [
        (name, m.family, ", ".join(sorted(m.needs)), m.paper, str(m.cost), describe(m.promise), str(m.parameters()))
        for name, m in every_method().items()
    ]
    columns = ["method", "family", "needs", "paper", "cost", "promise", "settings"]
    return pandas.DataFrame(rows, columns=columns).set_index("method")


def glossary() -> dict[str, str]:
    """What the words of the table mean: the deciding position, the largest cost, and what a method reads.

    >>> glossary()["hidden"]
    'hidden layers'
    """
    position = {"deciding position": "where the model reads its output ([CLS], or the last token)"}
    most = {"at most": f"with {TRIALS} forward passes that test whether tokens can be removed; none is run twice"}
    output = {"output": "nothing recorded: the method needs the output only, or runs the model itself"}
    return position | most | trace.NEEDS | output


def markdown() -> str:
    """Write the table of methods as Markdown.

    >>> print(markdown()[:58])
    | method | family | paper | cost | properties | settings |
    """
    rows = [
        (f"`{name}`", row["family"], row["paper"], row["cost"], row["promise"], f"`{row['settings']}`")
        for name, row in table().iterrows()
    ]
    header = ("method", "family", "paper", "cost", "properties", "settings")
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows])
