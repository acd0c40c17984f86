"""Views of explanations for notebooks; each is an anywidget that shows an explainer or a finished result.

>>> import nbsal
>>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
>>> nbsal.widgets.Highlight(explain, text="A warm and funny film.").wait().status
'ready'
"""

from typing import Any

from nbsal.widgets.answers import Answers as Answers
from nbsal.widgets.audit import Audit as Audit
from nbsal.widgets.base import View as View
from nbsal.widgets.browse import Browse as Browse
from nbsal.widgets.clouds import Clouds as Clouds
from nbsal.widgets.compare import Compare as Compare
from nbsal.widgets.games import Games as Games
from nbsal.widgets.heads import Heads as Heads
from nbsal.widgets.highlight import Highlight as Highlight
from nbsal.widgets.layers import Layers as Layers
from nbsal.widgets.page import plugins
from nbsal.widgets.workbench import Workbench as Workbench


def __getattr__(name: str) -> Any:
    return plugins.load(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *plugins.offered()})
