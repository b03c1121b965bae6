"""The ASGI application of all pages: finds the handler for a URL and sends its response."""

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from manilla.kit.errors import Refusal
from manilla.kit.http import ClientGone, Header
from manilla.web.serving.request import BODY_BYTES_MAX, WebRequest, normalize
from manilla.web.serving.response import PageResponse

Respond = Callable[[WebRequest], Awaitable[PageResponse]]
OnError = Callable[[WebRequest, Exception], PageResponse]

TYPES: dict[str, Callable[[str], str | int]] = {"str": str, "int": int, "path": str}
_PARAMETER = re.compile(r"\{([a-z_]+):([a-z]+)\}")
# Matches a valid Host header. Attackers use other characters to mislead URL parsers.
_HOST = re.compile(r"[0-9A-Za-z!$&'()*+,;=\-._~:\[\]@%]*")


class PageNotFound(Refusal):
    status, code = 404, "NOT_FOUND"
    message = "This page does not exist."


class MethodNotSupported(Refusal):
    status, code = 405, "METHOD_NOT_ALLOWED"
    message = "This URL does not support the request's method."

    def __init__(self, allowed: str) -> None:
        super().__init__()
        self.allowed = allowed


class InvalidHost(Refusal):
    status, code = 400, "REFUSED"
    message = "Invalid host header"


class UrlHandler(msgspec.Struct, frozen=True):
    """Handles one HTTP method of the URLs that match a path, such as `/pay/{link_id:str}`.

    A parameter of type `str` or `int` matches one segment of the path. A parameter of type `path`
    matches all remaining segments.
    """

    method: str
    path: str
    respond: Respond
    body_bytes_max: int = BODY_BYTES_MAX
    on_error: OnError | None = None  # None for the router's own error handler


class UrlPatterns:
    """A set of path patterns such as `/pay/{link_id:str}`."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._patterns = [re.compile(_pattern(path)) for path in paths]

    def match(self, path: str) -> bool:
        return any(pattern.fullmatch(path) for pattern in self._patterns)


def _pattern(path: str) -> str:
    by_type = {"str": "[^/]+", "int": "[0-9]+", "path": ".+"}
    return _PARAMETER.sub(lambda found: by_type[found.group(2)], path)


class _Handlers(msgspec.Struct):
    """The handlers of a path, one for each HTTP method."""

    by_method: dict[str, UrlHandler] = {}
    parameters: dict[str, list[tuple[str, Callable[[str], str | int]]]] = {}

    def add(self, handler: UrlHandler) -> None:
        assert handler.method not in self.by_method, f"two handlers: {handler.path}"
        self.by_method[handler.method] = handler
        found = _PARAMETER.findall(handler.path)
        self.parameters[handler.method] = [(name, TYPES[type_]) for name, type_ in found]

    @property
    def allowed(self) -> str:
        return ", ".join(sorted([*self.by_method, "OPTIONS"]))


class _Node(msgspec.Struct):
    """A node in the tree of paths with parameters. Each node is one path segment."""

    children: dict[str, "_Node"] = {}
    parameter: "_Node | None" = None
    takes_rest: bool = False  # whether the parameter matches all remaining segments
    handlers: _Handlers | None = None


class PageRouter:
    """The ASGI application that routes page requests to handlers.

    A path without parameters takes precedence. Other paths are matched segment by segment from the
    left, and a literal segment takes precedence over a parameter.
    """

    def __init__(self, handlers: Iterable[UrlHandler], on_error: OnError) -> None:
        self._plain: dict[str, _Handlers] = {}
        self._root = _Node()
        self._on_error = on_error
        for handler in handlers:
            self._handlers_at(normalize(handler.path)).add(handler)

    def _handlers_at(self, path: str) -> _Handlers:
        if "{" not in path:
            return self._plain.setdefault(path, _Handlers())
        node = self._root
        for segment in path.split("/")[1:]:
            node = _child(node, segment)
        if node.handlers is None:
            node.handlers = _Handlers()
        return node.handlers

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            response, headers = await self.respond(WebRequest(scope, receive))
        except ClientGone:
            return
        status = response.status
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await response.send_body(receive, send)

    async def respond(self, request: WebRequest) -> tuple[PageResponse, list[Header]]:
        """Returns the response of the request's handler, or the response to its error."""
        on_error = self._on_error
        try:
            handler = self._route(request)
            on_error = handler.on_error or on_error
            response = await handler.respond(request)
            return response, response.encoded_headers()
        except ClientGone:
            raise
        except Exception as error:
            response = on_error(request, error)
            return response, response.encoded_headers()

    def _route(self, request: WebRequest) -> UrlHandler:
        """Returns the handler for a request, and sets the request's path parameters."""
        if not _HOST.fullmatch(request.headers.get("host", "")):
            raise InvalidHost
        values: list[str] = []
        handlers = self._plain.get(request.path)
        if handlers is None:
            handlers, values = self._find(request.path)
        handler = handlers.by_method.get(request.method)
        if handler is None and request.method == "OPTIONS":
            return _options(handlers)
        if handler is None:
            raise MethodNotSupported(handlers.allowed)
        try:
            types = handlers.parameters[request.method]
            request.parameters = {
                name: type_(value) for (name, type_), value in zip(types, values, strict=True)
            }
        except ValueError:
            raise PageNotFound from None
        request.body_bytes_max = handler.body_bytes_max
        return handler

    def _find(self, path: str) -> tuple[_Handlers, list[str]]:
        node: _Node | None = self._root
        segments, values = path.split("/")[1:], []
        for place, segment in enumerate(segments):
            assert node is not None
            if (child := node.children.get(segment)) is not None:
                node = child
            elif node.takes_rest:
                values.append("/".join(segments[place:]))
                node = node.parameter
                break
            else:
                values.append(segment)
                node = node.parameter
            if node is None:
                raise PageNotFound
        if node is None or node.handlers is None:
            raise PageNotFound
        return node.handlers, values


def _child(node: _Node, segment: str) -> _Node:
    """Returns the node for a path's next segment, and creates the node if necessary."""
    parameter = _PARAMETER.fullmatch(segment)
    if parameter is None:
        return node.children.setdefault(segment, _Node())
    node.takes_rest = parameter.group(2) == "path"
    node.parameter = node.parameter or _Node()
    return node.parameter


def _options(handlers: _Handlers) -> UrlHandler:
    """Returns the handler of OPTIONS requests, which responds with the allowed methods."""

    async def respond(_request: WebRequest) -> PageResponse:
        return PageResponse.empty(204, headers={"Allow": handlers.allowed})

    return UrlHandler("OPTIONS", "", respond)
