"""The file of a saved result: safetensors, with the numbers as arrays and all else as JSON in its metadata.

A checksum covers every byte. Nothing is unpacked or unpickled, so a file takes no more memory than its size allows.
"""

import hashlib
import json
import struct
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from nbsal.model.loading.columns import Arrays, pack, unpack
from nbsal.model.loading.saved_files import check_format, damage_errors, parse_json, read, write
from nbsal.support.errors import InputError

T = TypeVar("T")
FORMAT = 3  # 1 and 2 were JSON, and .npz for results of evaluations
LARGEST_HEADER = 16 * 2**20  # bytes, written and read; as Python objects they may take 30 times as much
BLANK = "0" * 64  # in place of the checksum, where it is computed
TYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U8": "|u1", "BOOL": "|b1"}
_NAMES = {np.dtype(dtype): name for name, dtype in TYPES.items()}


def save_result(
    path: str | Path,
    kind: type[T],
    noun: str,
    result: T,
    check: Callable[[T], object],
    leave: Collection[str] = (),
) -> None:
    """Write the fields that a dataclass has, without those named in `leave`.

    `check` raises ValueError for what `load_result` would refuse; then nothing is written.
    """
    arrays: Arrays = {}
    try:
        check(result)
        content = json.dumps(pack(kind, result, arrays, leave), ensure_ascii=False)
        content.encode()  # fails on lone surrogates, which nothing can show
        arrays = {name: _plain(array) for name, array in arrays.items()}
        metadata = {"nbsal": str(FORMAT), "kind": noun, "sha256": BLANK, "result": content}
        header = _header(metadata, arrays)
    except (ValueError, KeyError, OverflowError) as error:
        raise InputError(f"This {noun} cannot be saved: {error!r:.300}.", argument="path", value=path) from error
    checksum = hashlib.sha256(header)
    for array in arrays.values():
        checksum.update(array.data)
    header = header.replace(BLANK.encode(), checksum.hexdigest().encode(), 1)

    def fill(file: BinaryIO) -> None:
        file.write(header)
        for array in arrays.values():
            file.write(array.data)

    write(path, fill)


def load_result(
    path: str | Path,
    kind: type[T],
    noun: str,
    older: Callable[[str | Path], T],
    check: Callable[[T], object],
) -> T:
    """The result that `save_result` wrote; `older` reads files of other formats.

    A result that `check` refuses is damaged, and so is one with anything changed.
    """
    with damage_errors(path, f"saved {noun}"):
        data = read(path)
        size = int.from_bytes(data[:8], "little")
        if data[8:9] != b"{" or size > len(data) - 8:
            result = older(path)
        else:
            metadata, arrays = _parse(data, 8 + size)
            check_format(path, int(metadata["nbsal"]), FORMAT)
            if metadata["kind"] != noun:
                raise ValueError(f"it is a saved {metadata['kind']}")
            del data  # arrays that are still used keep it
            result = unpack(kind, parse_json(f'{{"result": {metadata["result"]}}}')["result"], arrays)
            if arrays:
                raise ValueError(f"arrays that do not belong to it: {', '.join(arrays)}")
        check(result)
        return result


def _plain(array: Any) -> Any:
    """An array as a file holds it: of a known type, little-endian, without gaps."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)


def _header(metadata: dict[str, str], arrays: Arrays) -> bytes:
    """What a file begins with, the checksum left blank; ValueError if that could not be read again."""
    entries: dict[str, Any] = {"__metadata__": metadata}
    start = 0
    for name, array in arrays.items():
        end = start + array.nbytes
        entries[name] = {"dtype": _NAMES[array.dtype], "shape": array.shape, "data_offsets": [start, end]}
        start = end
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > LARGEST_HEADER:
        raise ValueError(f"its provenance and other single values have {len(text):,} bytes")
    return struct.pack("<Q", len(text)) + text


def _parse(data: bytes, start: int) -> tuple[dict[str, Any], Arrays]:
    """The metadata and the arrays of a file whose numbers begin at `start`, after its checksum was compared."""
    if start > 8 + LARGEST_HEADER:
        raise ValueError(f"a header of {start:,} bytes")
    entries = parse_json(data[8:start].decode())
    metadata = entries.pop("__metadata__")
    stored = metadata["sha256"].encode()
    at, whole = data.index(stored), memoryview(data)
    checksum = hashlib.sha256(whole[:at])
    checksum.update(BLANK.encode())
    checksum.update(whole[at + len(BLANK) :])
    if checksum.hexdigest().encode() != stored:
        raise ValueError("its checksum differs")
    arrays = {}
    for name, entry in entries.items():
        first, end = entry["data_offsets"]
        numbers = np.frombuffer(whole[start:][first:end], TYPES[entry["dtype"]])
        arrays[name] = numbers.reshape(entry["shape"])  # fails if they are fewer or more
    if sum(array.nbytes for array in arrays.values()) > len(data) - start:
        raise ValueError("arrays that overlap")  # copies of them would take more memory than the file has bytes
    return metadata, arrays
