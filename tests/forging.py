"""Saved results as any program reads and writes them: what is in a file, and files with something else in it."""

import hashlib
import json

import safetensors.numpy
from safetensors import safe_open


def opened(path):
    """The metadata of a saved file, the result in it, which is JSON, and its arrays."""
    with safe_open(path, "np") as file:
        content = json.loads(file.metadata()["result"])
        return file.metadata(), content, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def forge(path, metadata, content, arrays):
    """Write a file with a checksum that is right."""
    blank = metadata | {"sha256": "0" * 64, "result": json.dumps(content)}
    data = safetensors.numpy.save(arrays, blank)
    path.write_bytes(data.replace(b"0" * 64, hashlib.sha256(data).hexdigest().encode(), 1))
