"""Write files, and read the JSON and .npz of 0.2.0's development; sizes are checked before they fill the memory.

Damage raises ValueError or another error that `damage_errors` turns into an InputError about the path.
"""

import json
import math
import os
import re
import stat
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import Any, BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from nbsal.support.errors import InputError
from nbsal.support.validation import loading

LARGEST_JSON = 64 * 2**20  # bytes; as Python objects they may take 30 times as much
LARGEST_ARCHIVE = 256 * 2**20
SMALL_CONTENT = 64 * 2**20  # bytes to which any archive may unpack
LARGEST_RATIO = 20  # of the unpacked to the packed size of a larger one
MOST_MEMBERS = 10_000
_MEMBER = re.compile(r"[a-z]+[0-9]*\.npy", re.ASCII)
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


@contextmanager
def damage_errors(path: object, kind: str) -> Iterator[None]:
    """Raise an InputError about `path` for whatever is wrong with a file that should be of that kind."""
    try:
        with loading(path, kind):
            yield
    except InputError as error:
        if error.argument == "path":
            raise
        message = f"{path} is not a {kind}, or it is damaged: {error}"
        raise InputError(f"{message:.400}", argument="path", value=path) from error


def write(path: str | Path, fill: Callable[[BinaryIO], object]) -> None:
    """Replace a file by what `fill` writes; if that fails half way, as on a full disk, nothing has changed.

    Where another file could not take its place unnoticed (if it has hard links or another owner, is a device, or its
    folder cannot be written), the content is copied into it once it is complete.
    """
    target = Path(os.path.realpath(path))  # of a link, the file that it leads to
    temporary = target.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        if _make_alike(temporary, target):
            with temporary.open("wb") as file:
                fill(file)
            temporary.replace(target)
            return
        with TemporaryFile() as complete:
            fill(complete)
            complete.seek(0)
            with target.open("wb") as file:
                copyfileobj(complete, file)
    finally:
        temporary.unlink(missing_ok=True)


def _make_alike(temporary: Path, target: Path) -> bool:
    """Make an empty file that can replace another one; False if it would have other links or another owner."""
    if not target.exists():
        temporary.touch(exist_ok=False)
        return True
    if not target.is_file():
        return False
    with target.open("r+b") as file:  # refuses a file that may not be written, which could be replaced nevertheless
        status = os.fstat(file.fileno())
    mode = stat.S_IMODE(status.st_mode)
    try:
        temporary.touch(mode, exist_ok=False)  # with that mode from the start: the content may be secret
    except PermissionError:
        return False
    temporary.chmod(mode)  # of which the umask may have removed a part
    made = temporary.stat()
    return status.st_nlink == 1 and (made.st_uid, made.st_gid) == (status.st_uid, status.st_gid)


def read_json(path: str | Path) -> dict[str, Any]:
    return parse_json(read(path, LARGEST_JSON).decode("utf-8"))


def parse_json(text: str) -> dict[str, Any]:
    """The object in a JSON text, without repeated names and lone surrogates."""
    content = json.loads(text, object_pairs_hook=_unique)
    if not isinstance(content, dict):
        raise ValueError("it holds no JSON object")
    if "\\u" in text:
        json.dumps(content, ensure_ascii=False).encode()  # fails on lone surrogates, which nothing can write or show
    return content


def check_format(path: object, version: Any, readable: int) -> None:
    """Refuse a file of another format than the one that this version of nbsal reads."""
    if type(version) is not int or version != readable:
        message = f"{path} has format {version!r:.20}, but this version of nbsal reads format {readable}."
        raise InputError(message, argument="path", value=path)


def read_npz(path: str | Path) -> dict[str, NDArray[Any]]:
    """The arrays of numbers and text in an .npz file, by name."""
    data = read(path, LARGEST_ARCHIVE)
    with ZipFile(BytesIO(data)) as archive:
        members = archive.infolist()
        _check_members(members, len(data))
        return {member.filename.removesuffix(".npy"): _read_array(archive, member) for member in members}


def _check_members(members: Sequence[ZipInfo], packed: int) -> None:
    """Refuse an archive that would unpack to too much, or that `save` would not have written."""
    names = [member.filename for member in members]
    if len(names) > MOST_MEMBERS or len(set(names)) < len(names) or not all(map(_MEMBER.fullmatch, names)):
        raise ValueError("members with odd or repeated names")
    if any(member.compress_type not in (ZIP_STORED, ZIP_DEFLATED) for member in members):
        raise ValueError("members packed in another way")
    size = sum(member.file_size for member in members)
    if size > max(SMALL_CONTENT, LARGEST_RATIO * packed):
        raise ValueError(f"{packed:,} bytes that would unpack to {size:,}")


def _read_array(archive: ZipFile, member: ZipInfo) -> NDArray[Any]:
    """Unpack one array, up to the size that the archive declares for it."""
    with archive.open(member) as file:
        content = file.read(member.file_size)  # zipfile compares the checksum once it has read as much
    stream = BytesIO(content)
    shape, fortran, dtype = _HEADERS[np.lib.format.read_magic(stream)](stream)
    start = stream.tell()
    size = start + math.prod(shape) * dtype.itemsize
    if dtype.kind not in "fU" or not size == len(content) == member.file_size:
        raise ValueError(f"an array of another type or size in {member.filename}")
    return np.frombuffer(content, dtype, offset=start).reshape(shape, order="F" if fortran else "C").copy()


def read(path: str | Path, largest: int | None = None) -> bytes:
    """The content of a regular file that is not too large; reading a device or a pipe might never end."""
    status = Path(path).stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a file")
    if largest is not None and status.st_size > largest:
        raise ValueError(f"it has {status.st_size:,} bytes")
    with Path(path).open("rb") as file:
        return file.read(-1 if largest is None else largest)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a name occurs twice")
    return content
