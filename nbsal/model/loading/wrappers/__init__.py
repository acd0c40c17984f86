"""Models of other libraries, recognised by where their classes come from, without importing any library."""

from nbsal.model.loading.wrappers.opened import Opened as Opened
from nbsal.model.loading.wrappers.registry import open_model as open_model
