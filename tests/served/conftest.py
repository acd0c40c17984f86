"""The model behind the test server, and where it listens."""

import pytest

import nbsal
from tests.served import model_server


@pytest.fixture(scope="module")
def address():
    with model_server.running() as url:
        yield url


@pytest.fixture(scope="module")
def notes():
    return nbsal.load("demo/notes", dtype="float64")
