"""What explains texts, for files that show results as well: imported when it is first used (see `methods.lazy`)."""

from typing import TYPE_CHECKING

from nbsal.support.lazy import LazyClass, LazyModule

if TYPE_CHECKING:
    from nbsal.explain import batches as batches
    from nbsal.explain import checking as checking
    from nbsal.explain.checking import HiddenWords as HiddenWords
    from nbsal.explain.explainer import Explainer as Explainer
else:
    Explainer = LazyClass("nbsal.explain.explainer", "Explainer")
    checking = LazyModule("nbsal.explain.checking")
    batches = LazyModule("nbsal.explain.batches")
    HiddenWords = LazyClass("nbsal.explain.checking", "HiddenWords")
