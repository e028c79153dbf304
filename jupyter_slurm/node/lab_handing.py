"""How the door of a lab hands a connection to JupyterLab's own process, so that it copies nothing.

Runs on the cluster, Python 3.6 and later, standard library only. The door's half is `Giver`, a
socket in the lab's own folder. The other half is an extension of Jupyter Server, which lab.py puts
beside its configuration: it comes there, which says that it takes connections. After that

    door    the family of a connection, one byte, and with it the connection (SCM_RIGHTS, unix(7))
    server  a byte when somebody has changed something, which the door no longer sees

Where there is no such extension, or it has gone, nothing is handed, and the door copies.
"""

import array
import contextlib
import errno
import os
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs milliseconds
    from typing import Any, Dict, List, Optional, Tuple  # noqa: F401 - in comments

NAME = "door"
"""Of the socket, beside the server's."""
MODULE = "jupyter_slurm_handing"
"""As which the server finds this file."""
CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid (unix(7))
ONE = array.array("i").itemsize
CHANGES = ("PUT", "POST", "PATCH", "DELETE")
"""The methods that change something; a request of another does not come of a person only."""


class Giver(object):
    """The door's half; `path` is its socket's. OSError."""

    def __init__(self, path: str) -> None:
        # Each packet is whole: one connection, or the news of one change.
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.listener.bind(path)
            self.listener.listen(1)
        except OSError:
            self.listener.close()
            raise
        self.listener.setblocking(False)
        self.taker = None  # type: Optional[socket.socket]

    def meet(self) -> "Optional[socket.socket]":
        """Who has come; None: nobody who takes connections."""
        try:
            sock, _ = self.listener.accept()
        except OSError:  # hung up already, or this process has too many files open
            return None
        if self.taker is not None or peer_uid(sock) != os.getuid():
            sock.close()
            return None
        sock.setblocking(False)
        self.taker = sock
        return sock

    def give(self, sock: socket.socket) -> bool:
        """Whether the server has it now; the caller's own still has to be closed."""
        if self.taker is None:
            return False
        carried = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [sock.fileno()]))]
        try:
            self.taker.sendmsg([bytes(bytearray([sock.family]))], carried)
        except OSError:  # it has gone, or has too many before it that it has not taken yet
            return False
        return True

    def listen(self) -> bool:
        """Whether somebody has changed something. ConnectionError: the server has gone."""
        assert self.taker is not None
        try:
            if self.taker.recv(1):
                return True
        except BlockingIOError:
            return False
        except OSError:
            pass
        raise ConnectionError("the server takes none any more")

    def forget(self) -> None:
        """Whom it gave to."""
        if self.taker is not None:
            self.taker.close()
        self.taker = None


def giver(folder: str) -> "Optional[Giver]":
    """In the lab's own folder; None: it cannot be had there, and nobody is to notice."""
    with contextlib.suppress(OSError):
        return Giver(os.path.join(folder, NAME))
    return None


def peer_uid(sock: socket.socket) -> int:
    told = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return int(CREDENTIALS.unpack(told)[1])


# --- in JupyterLab's process ---


class Taken(object):
    """To tornado a socket that listens (`TCPServer.add_socket`): what it accepts was handed on."""

    def __init__(self, sock: socket.socket, io_loop: "Any") -> None:
        self.sock = sock
        self.io_loop = io_loop

    def fileno(self) -> int:
        return self.sock.fileno()

    def close(self) -> None:
        self.sock.close()

    def accept(self) -> "Tuple[socket.socket, None]":
        """The address is None, at which tornado says 0.0.0.0, as of who comes to a Unix socket."""
        room = socket.CMSG_SPACE(ONE)
        try:
            # No kernel is to inherit it.
            family, carried, _, _ = self.sock.recvmsg(1, room, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            raise
        except OSError:
            family = b""
        if not family:  # the lab is over; what is at an end can be read again and again
            self.io_loop.remove_handler(self.sock.fileno())
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        for level, kind, what in carried:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS) and len(what) >= ONE:
                [descriptor] = array.array("i", what[:ONE])
                # Python 3.6 does not see by itself of which family it is.
                return socket.socket(family[0], socket.SOCK_STREAM, 0, descriptor), None
        # This process has too many files open.
        raise ConnectionAbortedError(errno.ECONNABORTED, os.strerror(errno.ECONNABORTED))


def take(app: "Any") -> None:
    """From the door, for a ServerApp that serves already."""
    settings = app.web_app.settings
    log = settings["log_function"]
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        sock.connect(os.path.join(os.path.dirname(app.sock), NAME))
        sock.setblocking(False)
        app.http_server.add_socket(Taken(sock, app.io_loop))
    except Exception:
        sock.close()
        raise

    def noticed(handler: "Any") -> None:
        if handler.request.method in CHANGES:
            with contextlib.suppress(OSError):
                sock.send(b"!")
        log(handler)

    settings["log_function"] = noticed


def take_if_it_can_be(app: "Any") -> None:
    try:
        take(app)
    except Exception as error:  # another release of something: the door copies
        app.log.debug("jupyter-slurm: no connections are handed on: %r", error)


def _jupyter_server_extension_points() -> "List[Dict[str, str]]":
    return [{"module": MODULE}]


def _load_jupyter_server_extension(app: "Any") -> None:
    app.io_loop.add_callback(take_if_it_can_be, app)  # then it has its http_server
