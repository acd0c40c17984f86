"""Many small cases in one test, which lists all that fail."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def cases(names: str, values: Iterable[Any]) -> Callable[[Callable], Callable]:
    """Run a test with each of these values, as `pytest.mark.parametrize` does, but as a single test.

    For cheap cases. Each has a folder and a monkeypatch of its own; other fixtures are those of the whole test.
    """
    arguments = [name.strip() for name in names.split(",")]

    def decorate(check: Callable) -> Callable:
        @functools.wraps(check)
        def test(**fixtures: Any) -> None:
            failures = []
            for number, value in enumerate(values):
                settings = dict(zip(arguments, value if len(arguments) > 1 else [value], strict=True))
                try:
                    _run(check, fixtures | settings, number)
                except Exception as error:
                    error.add_note(f"in the case {value!r}")
                    failures.append(error)
            if failures:
                raise ExceptionGroup(f"{len(failures)} cases failed", failures)

        parameters = inspect.signature(check).parameters
        fixtures = [parameter for name, parameter in parameters.items() if name not in arguments]
        test.__signature__ = inspect.Signature(fixtures)  # pytest reads the names of fixtures here
        return test

    return decorate


def _run(check: Callable, settings: dict[str, Any], number: int) -> None:
    if "tmp_path" in settings:
        settings["tmp_path"] /= str(number)
        settings["tmp_path"].mkdir()
    if "monkeypatch" not in settings:
        check(**settings)
        return
    with settings["monkeypatch"].context() as patch:
        check(**settings | {"monkeypatch": patch})
