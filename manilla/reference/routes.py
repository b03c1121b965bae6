"""The URLs under /docs: cached pages, and the search with or without JavaScript."""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import MediaType, Request, Response, get
from litestar.exceptions import NotFoundException

from manilla.platform.settings import CurrentSettings
from manilla.reference.pages import ROOT, Documentation, RenderedDocumentation
from manilla.web.routes import PageRouter
from manilla.web.static_files import CompressedFile

QUERY_LENGTH_MAX = 100
SUGGESTIONS_MAX = 12
HTML = "text/html"
NO_STORE = {"Cache-Control": "no-store"}
CACHE = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding"}

PageGet = Request[Any, Any, Any]


def build(
    document: Mapping[str, Any], platform: CurrentSettings, *, is_development: bool
) -> PageRouter:
    pages = DocumentationRoutes(Documentation(document, is_development=is_development), platform)
    return PageRouter(path=ROOT, route_handlers=pages.handlers())


class DocumentationRoutes:
    def __init__(self, documentation: Documentation, platform: CurrentSettings) -> None:
        self._documentation = documentation
        self._platform = platform
        self._rendered: RenderedDocumentation | None = None
        self._files: dict[str, tuple[str, CompressedFile]] = {}  # files by path, with their ETags
        self._rendering = asyncio.Lock()

    def handlers(self) -> list[Any]:
        return [
            get("/")(self.show),
            get("/search")(self.search),
            get("/search.json")(self.suggest),
            get("/{name:str}")(self.show),
            get("/api/{name:str}")(self.show),
        ]

    async def show(self, request: PageGet) -> Response[Any]:
        address = request.url.path.rstrip("/")
        page = (await self._current()).pages.get(address)
        if page is None:
            raise NotFoundException
        return self._send(request, address, page.html.encode())

    async def search(self, request: PageGet) -> Response[Any]:
        text = (await self._current()).search_page(_query(request))
        return Response(text, media_type=MediaType.HTML, headers=NO_STORE)

    async def suggest(self, request: PageGet) -> Response[Any]:
        """Returns the results as JSON, for the list that opens while a user types."""
        found = (await self._current()).search(_query(request))[:SUGGESTIONS_MAX]
        return Response(msgspec.json.encode(found), media_type=MediaType.JSON, headers=NO_STORE)

    async def _current(self) -> RenderedDocumentation:
        """Returns the current pages.

        They are rendered in a thread, so that payments do not wait.
        """
        async with self._rendering:
            settings = self._platform.now
            if self._rendered is None or self._rendered.settings != settings:
                self._rendered = await asyncio.to_thread(self._documentation.render_all, settings)
                self._files = {}
            return self._rendered

    def _send(self, request: PageGet, name: str, content: bytes) -> Response[Any]:
        if name not in self._files:
            tag = f'W/"{hashlib.sha256(content).hexdigest()[:16]}"'
            self._files[name] = tag, CompressedFile(content, HTML)
        tag, file = self._files[name]
        headers = {**CACHE, "ETag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(None, status_code=304, headers=headers)
        return file.respond(request, headers)


def _query(request: PageGet) -> str:
    return str(request.query_params.get("q", ""))[:QUERY_LENGTH_MAX].strip()
