"""No test reaches another machine: neither pytest nor a program that it starts.

What was tried is raised where it was tried and noted in a file, since a program may take it for a missing network.
"""

import ipaddress
import os
import socket
import sys


class LeftThisMachine(BaseException):
    """Not an Exception: `except Exception` must not swallow it."""


def _stays(host):
    host = host.decode() if isinstance(host, bytes) else host
    if not host or host in ("localhost", socket.gethostname()):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _refuse(event, arguments):
    if event == "socket.connect":
        one, address = arguments
        if one.family == getattr(socket, "AF_UNIX", None) or one.type == socket.SOCK_DGRAM:  # UDP sends nothing yet
            return
        host = address[0]
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = arguments[0]
        try:
            ipaddress.ip_address(host)
        except ValueError:
            pass
        else:
            return  # no question to anybody; a connection is judged by itself
    else:
        return
    if host == "huggingface.co":  # as where there is no network; what is told then has tests
        raise socket.gaierror(socket.EAI_AGAIN, "refused by tests/guard")
    if not _stays(host):
        if note := os.environ.get("BERDS_TEST_LEFT"):
            with open(note, "a", encoding="utf-8") as file:
                file.write(f"{host} ({event}) by {' '.join(sys.argv)[:200]}\n")
        raise LeftThisMachine(f"a test asked for {host!r} ({event}); tests reach no machine but this one")


sys.addaudithook(_refuse)
