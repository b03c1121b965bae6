"""Static files, kept in memory and sent compressed, under URLs that change with their contents."""

import gzip
import hashlib
import mimetypes
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Self

from litestar import Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler

STATIC = Path(str(resources.files("manilla.web"))) / "static"
FONTS = STATIC / "fonts"
PATH = "/static/web"
FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}


class CompressedFile:
    """Content in memory, compressed once."""

    def __init__(self, content: bytes, media_type: str) -> None:
        self._content = content
        self._compressed = gzip.compress(content, 6, mtime=0)
        self._media_type = media_type

    @classmethod
    def read(cls, path: Path) -> Self:
        media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        return cls(path.read_bytes(), media_type)

    def respond(
        self, request: Request[Any, Any, Any], headers: Mapping[str, str]
    ) -> Response[bytes]:
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers = {**headers, "Content-Encoding": "gzip"}
            return Response(self._compressed, media_type=self._media_type, headers=headers)
        return Response(self._content, media_type=self._media_type, headers=headers)


def handler() -> HTTPRouteHandler:
    paths = [path for path in STATIC.rglob("*") if path.is_file()]
    files = {str(path.relative_to(STATIC)): CompressedFile.read(path) for path in paths}

    @get(PATH + "/{version:str}/{name:path}")
    async def static_file(request: Request[Any, Any, Any]) -> Response[bytes]:
        file = files.get(str(request.path_params["name"]).lstrip("/"))
        if file is None:
            raise NotFoundException
        return file.respond(request, FOR_EVER)

    return static_file


def url(folder: Path) -> str:
    """Returns the static files' URL, with a version that changes only when this folder changes."""
    return f"{PATH}/{version(folder)}"


def version(folder: Path) -> str:
    """Returns a version that changes when any of the folder's files changes."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
