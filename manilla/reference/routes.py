"""The URLs under /docs: cached pages, and the search for browsers with and without JavaScript."""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any

from manilla.platform.settings import CurrentSettings
from manilla.reference.pages import MOVED, ROOT, Documentation, RenderedDocumentation
from manilla.web.serving.request import WebRequest
from manilla.web.serving.response import HTML, PageResponse
from manilla.web.serving.router import PageNotFound, UrlHandler
from manilla.web.static_files import CompressedFile

QUERY_LENGTH_MAX = 100
SUGGESTIONS_MAX = 12
NO_STORE = {"Cache-Control": "no-store"}
CACHE = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding"}


def build(
    document: Mapping[str, Any], platform: CurrentSettings, *, is_development: bool
) -> list[UrlHandler]:
    documentation = Documentation(document, is_development=is_development)
    return DocumentationRoutes(documentation, platform).handlers()


class DocumentationRoutes:
    def __init__(self, documentation: Documentation, platform: CurrentSettings) -> None:
        self._documentation = documentation
        self._platform = platform
        self._rendered: RenderedDocumentation | None = None
        self._files: dict[str, tuple[str, CompressedFile]] = {}  # maps paths to an ETag and a file
        self._rendering = asyncio.Lock()

    def handlers(self) -> list[UrlHandler]:
        return [
            UrlHandler("GET", ROOT, self.show),
            UrlHandler("GET", ROOT + "/search", self.search),
            UrlHandler("GET", ROOT + "/search.json", self.suggest),
            UrlHandler("GET", ROOT + "/{name:str}", self.show),
            UrlHandler("GET", ROOT + "/api/{name:str}", self.show),
        ]

    async def show(self, request: WebRequest) -> PageResponse:
        if request.path in MOVED:
            return PageResponse.redirect(MOVED[request.path])
        page = (await self._current()).pages.get(request.path)
        if page is None:
            raise PageNotFound
        return self._send(request, request.path, page.html.encode())

    async def search(self, request: WebRequest) -> PageResponse:
        text = (await self._current()).search_page(_query(request))
        return PageResponse.html(text, headers=NO_STORE)

    async def suggest(self, request: WebRequest) -> PageResponse:
        """Returns search results as JSON, for the list that opens as the user types."""
        found = (await self._current()).search(_query(request))[:SUGGESTIONS_MAX]
        return PageResponse.json(found, headers=NO_STORE)

    async def _current(self) -> RenderedDocumentation:
        """Returns the pages for the current platform settings.

        A thread renders them, so the event loop can serve other requests.
        """
        async with self._rendering:
            settings = self._platform.now
            if self._rendered is None or self._rendered.settings != settings:
                self._rendered = await asyncio.to_thread(self._documentation.render_all, settings)
                self._files = {}
            return self._rendered

    def _send(self, request: WebRequest, name: str, content: bytes) -> PageResponse:
        if name not in self._files:
            tag = f'W/"{hashlib.sha256(content).hexdigest()[:16]}"'
            self._files[name] = tag, CompressedFile(content, HTML)
        tag, file = self._files[name]
        headers = {**CACHE, "ETag": tag}
        if request.headers.get("if-none-match") == tag:
            return PageResponse.empty(304, headers=headers)
        return file.respond(request, headers)


def _query(request: WebRequest) -> str:
    return request.query.get("q", "")[:QUERY_LENGTH_MAX].strip()
