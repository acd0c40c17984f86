"""NaN and infinity are found wherever they are, and nothing else is taken for them."""

import math

import pytest
import torch

from nbsal.model.running.finite import is_finite

FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e5m2)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_value_that_is_no_number_is_found(value, dtype):
    tensor = torch.zeros(3, 5)
    tensor[1, 2] = value
    assert not is_finite(tensor.to(dtype))
