"""Many small cases in one test, which lists all that fail."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any


def cases(names: str, values: Iterable[Any]) -> Callable[[Callable], Callable]:
    """Run a test with each of these values, as `pytest.mark.parametrize` does, but as a single test.

    For cases that are cheap and leave nothing behind: fixtures are those of the whole test.
    """
    arguments = [name.strip() for name in names.split(",")]

    def decorate(check: Callable) -> Callable:
        def test(**fixtures: Any) -> None:
            failures = []
            for value in values:
                try:
                    check(**dict(zip(arguments, value if len(arguments) > 1 else [value], strict=True)), **fixtures)
                except Exception as error:
                    error.add_note(f"in the case {value!r}")
                    failures.append(error)
            if failures:
                raise ExceptionGroup(f"{len(failures)} cases failed", failures)

        parameters = inspect.signature(check).parameters
        fixtures = [parameter for name, parameter in parameters.items() if name not in arguments]
        test.__signature__ = inspect.Signature(fixtures)  # pytest reads the names of fixtures here
        test.__doc__, test.__module__ = check.__doc__, check.__module__
        return test

    return decorate
