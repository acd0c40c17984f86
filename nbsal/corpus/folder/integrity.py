"""Checks that the files of a stored corpus are those that its manifest lists."""

from collections.abc import Collection

from nbsal.corpus.folder import manifest
from nbsal.corpus.folder.manifest import Manifest
from nbsal.corpus.folder.storage import Storage
from nbsal.support.errors import InputError
from nbsal.support.warning import warn


def check_sizes(storage: Storage, stored: Manifest) -> None:
    """Refuse shards that are missing or of another size, and warn of stray ones; no file is read."""
    sizes = _list_sizes(storage)
    if not sizes:
        return
    expected = {shard.name: shard.size for shard in stored.shards.values()}
    damaged = [name for name, size in expected.items() if name not in sizes or sizes[name] not in (size, None)]
    if damaged:
        raise damage(storage, damaged)
    if stored.complete and (strays := _strays(sizes, stored)):
        warn(
            f"{storage.location} has files that are not part of the corpus and are not read: {', '.join(strays)}. "
            "Remove them if other programs read this folder."
        )


def verify_files(storage: Storage, stored: Manifest) -> list[str]:
    """Refuse files whose content is not the one that was written; return the names of stray files."""
    checksums = {shard.name: shard.checksum for shard in stored.shards.values()}
    checksums[manifest.VOCABULARY] = stored.plan.vocabulary
    damaged = [name for name, checksum in checksums.items() if storage.read_verified(name, checksum) is None]
    if damaged:
        raise damage(storage, damaged)
    return _strays(_list_sizes(storage), stored)


def damage(storage: Storage, names: Collection[str]) -> InputError:
    """The error for files that are missing or damaged."""
    return InputError(
        f"{storage.location} is damaged: missing or changed are {', '.join(names)}. Run nbsal.corpus.explain again to "
        "restore them.",
        argument="location",
        value=storage.location,
    )


def _strays(names: Collection[str], stored: Manifest) -> list[str]:
    """The files that other programs would take for shards, or that are named like shards, but are not listed."""
    shards = {shard.name for shard in stored.shards.values()}
    candidates = (name for name in names if name.startswith("part-") or name.endswith(".parquet"))
    return sorted(name for name in candidates if name not in shards)


def _list_sizes(storage: Storage) -> dict[str, int | None]:
    """The files of a folder with their sizes; empty for stores that can be read but not listed."""
    try:
        sizes = storage.sizes()
    except InputError:
        return {}
    return sizes if manifest.NAME in sizes else {}
