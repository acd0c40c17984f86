"""Pages that answer without Python: a small copy of a model, written for the page, which runs it."""

from nbsal.live.export import export as export
from nbsal.live.export import rounded as rounded
