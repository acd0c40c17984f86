"""Functions that are called before and after modules of a twin run."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def hooks(
    modules: Iterable[nn.Module],
    before: Callable[..., object] | None = None,
    after: Callable[..., object] | None = None,
    first: bool = False,
) -> Iterator[None]:
    """Call functions, which also get keyword arguments, before and after some modules run.

    A call that comes `first` precedes those of other hooks.
    """
    handles = []
    try:
        for module in dict.fromkeys(modules):
            if before is not None:
                handles.append(module.register_forward_pre_hook(before, with_kwargs=True, prepend=first))
            if after is not None:
                handles.append(module.register_forward_hook(after, with_kwargs=True))
        yield
    finally:
        for handle in handles:
            handle.remove()
