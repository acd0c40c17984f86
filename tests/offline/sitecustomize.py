"""Refuse network access in every process that tests start, kernels included, because PYTHONPATH names this folder.

Connections to this machine are allowed. Others raise an exception that no `except Exception` suppresses.
"""

import contextlib
import importlib.machinery
import importlib.util
import socket
import sys
from ipaddress import ip_address
from pathlib import Path


class NetworkRefused(BaseException):
    """A connection to another machine was attempted."""


def is_local(host):
    """Whether an address or a name is this machine's."""
    if isinstance(host, bytes):
        host = host.decode()
    if host in (None, "", "localhost", socket.gethostname()):
        return True
    try:
        address = ip_address(host.split("%")[0])
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified:
        return True
    with contextlib.suppress(OSError), socket.socket(_family(address), socket.SOCK_DGRAM) as probe:
        probe.bind((str(address), 0))  # only an address of this machine can be bound
        return True
    return False


def _family(address):
    return socket.AF_INET if address.version == 4 else socket.AF_INET6


def guard(name):
    """A method of sockets that refuses streams to other machines; connecting a datagram socket sends nothing."""
    original = getattr(socket.socket, name)

    def method(self, address, *rest):
        streams = self.family in (socket.AF_INET, socket.AF_INET6) and self.type == socket.SOCK_STREAM
        if streams and not is_local(address[0]):
            raise NetworkRefused(f"A test connected to {address[0]}:{address[1]}.")
        return original(self, address, *rest)

    return method


def guarded_getaddrinfo(host, *rest, **options):
    """Refuse to look up the names of other machines."""
    if not is_local(host) and not _is_address(host):
        raise NetworkRefused(f"A test looked up {host}.")
    return _getaddrinfo(host, *rest, **options)


def _is_address(host):
    try:
        ip_address(host.decode() if isinstance(host, bytes) else host)
    except ValueError:
        return False
    return True


_getaddrinfo = socket.getaddrinfo
socket.getaddrinfo = guarded_getaddrinfo
for _name in ("connect", "connect_ex"):
    setattr(socket.socket, _name, guard(_name))

# The environment may have another sitecustomize, which this one hides.
_here = Path(__file__).resolve().parent
_elsewhere = [folder for folder in sys.path if Path(folder).resolve() != _here]
_other = importlib.machinery.PathFinder.find_spec("sitecustomize", _elsewhere)
if _other is not None and _other.loader is not None:
    _other.loader.exec_module(importlib.util.module_from_spec(_other))
