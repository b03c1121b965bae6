"""Test servers for `listen`: the shop's receiver, and a proxy in front of the platform."""

import contextlib
import http.client
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.notify.receiver import Received
from tests.support.timeouts import TIMEOUT_SECONDS

Answering = Callable[[Received], int]


def accept(_: Received) -> int:
    return 200


class Shop:
    """Records the requests that arrive. A test can set a response for each path."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answering: dict[str, Answering] = {}
        self.after_answer: Callable[[Received], None] = lambda _: None
        self.port = 0

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def at(self, path: str) -> list[Received]:
        return [each for each in self.received if each.path == path]

    def wait_for(self, path: str, count: int) -> list[Received]:
        until(lambda: len(self.at(path)) >= count)
        return self.at(path)


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not happened():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.05)


@contextlib.contextmanager
def opened(port: int = 0) -> Iterator[Shop]:
    shop = Shop()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            received = Received(self.path, headers, body)
            status = shop.answering.get(self.path, accept)(received)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()
            self.wfile.flush()
            shop.after_answer(received)
            shop.received.append(received)

        def log_message(self, *_: object) -> None:
            return

    with _serving(Handler, port) as shop.port:
        yield shop


class Proxy:
    """Forwards requests to the platform. A test can make the proxy reject some requests itself."""

    def __init__(self) -> None:
        # The proxy sends these responses instead of forwarding the next requests.
        self.refusals: list[tuple[int, dict[str, str]]] = []
        self.port = 0


@contextlib.contextmanager
def proxied(platform_port: int) -> Iterator[Proxy]:
    proxy = Proxy()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = self._refusal() or self._passed_on()
            with contextlib.suppress(BrokenPipeError):  # The client may have closed the connection.
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        def _refusal(self) -> tuple[int, dict[str, str], bytes] | None:
            if not proxy.refusals:
                return None
            return (*proxy.refusals.pop(0), b"<h1>Not now</h1>")

        def _passed_on(self) -> tuple[int, dict[str, str], bytes]:
            platform = http.client.HTTPConnection("127.0.0.1", platform_port)
            with contextlib.closing(platform):
                platform.request("GET", self.path, headers=dict(self.headers))
                response = platform.getresponse()
                return response.status, {}, response.read()

        def log_message(self, *_: object) -> None:
            return

    with _serving(Handler, 0) as proxy.port:
        yield proxy


@contextlib.contextmanager
def _serving(handler: type[BaseHTTPRequestHandler], port: int) -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
