"""Serves `checkout.js`, with which a shop's page shows checkout in a dialog.

The URL contains the script's version. Shops load the script with an integrity hash, so a published
version never changes and stays available. A changed script gets a new version and a new folder.
"""

import base64
import hashlib
from importlib import resources
from pathlib import Path

from manilla.web.serving.request import WebRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound, UrlHandler
from manilla.web.static_files import FOR_EVER, CompressedFile

FOLDER = Path(str(resources.files("manilla.web"))) / "embed"
PATH = "/embed"
NAME = "checkout.js"
VERSION = "1.0.1"  # the version that the documentation recommends
# Browsers check the integrity of another origin's script only if it may be read across origins.
HEADERS = {
    **FOR_EVER,
    "Access-Control-Allow-Origin": "*",
    "Cross-Origin-Resource-Policy": "cross-origin",
}


def versions() -> list[str]:
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{NAME}"))


def handler() -> UrlHandler:
    files = {version: CompressedFile.read(_path(version)) for version in versions()}

    async def respond(request: WebRequest) -> PageResponse:
        file = files.get(str(request.parameters["version"]))
        if file is None:
            raise PageNotFound
        return file.respond(request, HEADERS)

    return UrlHandler("GET", f"{PATH}/{{version:str}}/{NAME}", respond)


def integrity(version: str = VERSION) -> str:
    """Returns the value of the `integrity` attribute for a version of the script."""
    digest = hashlib.sha384(_path(version).read_bytes()).digest()
    return f"sha384-{base64.b64encode(digest).decode()}"


def tag(base_url: str) -> str:
    """Returns the HTML element with which a shop's page loads the recommended version."""
    return (
        f'<script src="{base_url}{PATH}/{VERSION}/{NAME}"\n'
        f'        integrity="{integrity()}"\n'
        '        crossorigin="anonymous" defer></script>'
    )


def _path(version: str) -> Path:
    return FOLDER / version / NAME
