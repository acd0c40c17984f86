"""Python without a network: on PYTHONPATH, every process that a test starts, kernels too, reaches this machine alone.

What asks for another one is told so by an exception that no `except Exception` swallows.
"""

import contextlib
import importlib.machinery
import importlib.util
import socket
import sys
from ipaddress import ip_address
from pathlib import Path


class Refused(BaseException):
    """Somebody asked for the network."""


def local(host):
    """Whether an address, or a name, is this machine's own."""
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
        probe.bind((str(address), 0))  # only an address of one's own can be bound
        return True
    return False


def _family(address):
    return socket.AF_INET if address.version == 4 else socket.AF_INET6


def guarded(name):
    """A method of sockets that first looks where it leads; datagrams that are only bound to a peer send nothing."""
    stock = getattr(socket.socket, name)

    def method(self, address, *rest):
        streams = self.family in (socket.AF_INET, socket.AF_INET6) and self.type == socket.SOCK_STREAM
        if streams and not local(address[0]):
            raise Refused(f"The network was asked for: {address[0]}:{address[1]}.")
        return stock(self, address, *rest)

    return method


def looked_up(host, *rest, **named):
    """Names of other machines are not even looked up."""
    if not local(host) and not _is_address(host):
        raise Refused(f"The network was asked for: {host}.")
    return _getaddrinfo(host, *rest, **named)


def _is_address(host):
    try:
        ip_address(host.decode() if isinstance(host, bytes) else host)
    except ValueError:
        return False
    return True


_getaddrinfo = socket.getaddrinfo
socket.getaddrinfo = looked_up
for _name in ("connect", "connect_ex"):
    setattr(socket.socket, _name, guarded(_name))

# An environment may have a sitecustomize of its own.
_here = Path(__file__).resolve().parent
_elsewhere = [folder for folder in sys.path if Path(folder).resolve() != _here]
_other = importlib.machinery.PathFinder.find_spec("sitecustomize", _elsewhere)
if _other is not None and _other.loader is not None:
    _other.loader.exec_module(importlib.util.module_from_spec(_other))
