"""Static files, kept in memory and sent compressed, under a URL that changes with them."""

import gzip
import hashlib
import mimetypes
from importlib import resources
from pathlib import Path
from typing import Any

from litestar import Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler

STATIC = Path(str(resources.files("manilla.web"))) / "static"
PATH = "/static/web"
FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}


class _File:
    def __init__(self, path: Path) -> None:
        self.content = path.read_bytes()
        self.compressed = gzip.compress(self.content, 6, mtime=0)
        self.media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"


def handler() -> HTTPRouteHandler:
    files = {
        str(path.relative_to(STATIC)): _File(path) for path in STATIC.rglob("*") if path.is_file()
    }

    @get(PATH + "/{version:str}/{name:path}")
    async def static_file(request: Request[Any, Any, Any]) -> Response[bytes]:
        file = files.get(str(request.path_params["name"]).lstrip("/"))
        if file is None:
            raise NotFoundException
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers = {**FOR_EVER, "Content-Encoding": "gzip"}
            return Response(file.compressed, media_type=file.media_type, headers=headers)
        return Response(file.content, media_type=file.media_type, headers=FOR_EVER)

    return static_file


def version(folder: Path) -> str:
    """Changes when any of the folder's files changes."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
