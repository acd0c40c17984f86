"""Checks that any explanation method should pass, on small models: `python -m nbsal.testing NAME`, or from pytest.

>>> import nbsal
>>> results = check("gradcam", tiny_models.load("bert"), layer=1)
>>> {result.outcome for result in results}
{'passed'}
"""

from nbsal.testing import tiny_models as tiny_models
from nbsal.testing.suite import CHECKS as CHECKS
from nbsal.testing.suite import Result as Result
from nbsal.testing.suite import check as check
from nbsal.testing.suite import run as run
