"""A shop's notification receiver in the test process, which returns the configured statuses."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.notify.receiver import Received
from tests.support.timeouts import TIMEOUT_SECONDS


class Shop:
    def __init__(self) -> None:
        self.received: list[Received] = []
        # maps paths to response statuses; the default status is 200
        self.statuses: dict[str, int] = {}
        self.port = 0

    def url(self, path: str = "/ipn") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def of(self, notification_id: str, path: str = "/ipn") -> list[Received]:
        return [
            each
            for each in self.received
            if (each.path, each.headers["webhook-id"]) == (path, notification_id)
        ]

    def wait_for(self, notification_id: str, path: str = "/ipn", count: int = 1) -> list[Received]:
        until(lambda: len(self.of(notification_id, path)) >= count)
        return self.of(notification_id, path)


def until(happened: Callable[[], bool], seconds: float = TIMEOUT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.05)


@contextlib.contextmanager
def opened() -> Iterator[Shop]:
    shop = Shop()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            shop.received.append(Received(self.path, headers, body))
            self.send_response(shop.statuses.get(self.path, 200))
            self.send_header("Content-Length", "6")
            self.end_headers()
            self.wfile.write(b"thanks")

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        shop.port = server.server_port
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield shop
        finally:
            server.shutdown()
            thread.join()
