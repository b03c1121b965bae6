"""Serves compressed static files from memory. Their URLs change when a file changes."""

import gzip
import hashlib
import mimetypes
import zlib
from collections.abc import Callable, Mapping
from email.utils import formatdate
from importlib import resources
from pathlib import Path
from typing import Self, TypeVar

from manilla.web.serving.request import WebRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound, UrlHandler

STATIC = Path(str(resources.files("manilla.web"))) / "static"
FONTS = STATIC / "fonts"
PATH = "/static/web"
FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}

File = TypeVar("File")


class CompressedFile:
    """A file in memory, compressed when it is loaded."""

    def __init__(self, content: bytes, media_type: str) -> None:
        self._content = content
        self._compressed = gzip.compress(content, 6, mtime=0)
        self._media_type = media_type

    @classmethod
    def read(cls, path: Path) -> Self:
        return cls(path.read_bytes(), _media_type(path))

    def respond(self, request: WebRequest, headers: Mapping[str, str]) -> PageResponse:
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers = {**headers, "Content-Encoding": "gzip"}
            return PageResponse(self._compressed, media_type=self._media_type, headers=headers)
        return PageResponse(self._content, media_type=self._media_type, headers=headers)


def handler() -> UrlHandler:
    files = _read_all(STATIC, CompressedFile.read)

    async def respond(request: WebRequest) -> PageResponse:
        file = files.get(str(request.parameters["name"]))
        if file is None:
            raise PageNotFound
        return file.respond(request, FOR_EVER)

    return UrlHandler("GET", PATH + "/{version:str}/{name:path}", respond)


def folder_handlers(
    path: str, folder: Path, headers: Mapping[str, str] | None = None
) -> list[UrlHandler]:
    """Returns handlers that serve a folder of small files from memory, uncompressed."""
    files = _read_all(folder, lambda file: _plain_file(file, headers or {}))

    async def respond(request: WebRequest) -> PageResponse:
        file = files.get(str(request.parameters["name"]))
        if file is None:
            raise PageNotFound
        return file

    return [UrlHandler(method, path + "/{name:path}", respond) for method in ("GET", "HEAD")]


def _plain_file(path: Path, headers: Mapping[str, str]) -> PageResponse:
    content, changed_at = path.read_bytes(), path.stat().st_mtime
    media_type = _media_type(path)
    charset = "; charset=utf-8" if media_type.startswith("text/") else ""
    return PageResponse(
        content,
        headers={
            **headers,
            "Content-Type": media_type + charset,
            "Content-Disposition": f'inline; filename="{path.name}"',
            "Content-Length": str(len(content)),
            "Last-Modified": formatdate(changed_at, usegmt=True),
            "ETag": f'"{changed_at}-{len(content)}-{zlib.adler32(str(path).encode())}"',
        },
    )


def _read_all(folder: Path, read: Callable[[Path], File]) -> dict[str, File]:
    """Maps the relative paths of all files in a folder to the files."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): read(path) for path in paths}


def _media_type(path: Path) -> str:
    return mimetypes.guess_type(path.name)[0] or "application/octet-stream"


def url(folder: Path) -> str:
    """Returns the base URL of a folder's static files, which contains the folder's version."""
    return f"{PATH}/{version(folder)}"


def version(folder: Path) -> str:
    """Returns a hash that changes when a file in the folder changes."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
