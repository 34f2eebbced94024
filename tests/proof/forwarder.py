"""Makes a PostgreSQL at a Unix socket reachable at an address: SOCKET ADDRESS PORT."""

import socket
import sys
import threading


def _copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        return
    finally:
        for each in (source, sink):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


def forward(path: str, address: str, port: int) -> None:
    """Serve until the process is ended."""
    with socket.create_server((address, port)) as server:
        print("listening", flush=True)
        while True:
            client, _ = server.accept()
            there = socket.socket(socket.AF_UNIX)
            there.connect(path)
            for pair in ((client, there), (there, client)):
                threading.Thread(target=_copy, args=pair, daemon=True).start()


if __name__ == "__main__":
    forward(sys.argv[1], sys.argv[2], int(sys.argv[3]))
