"""Runs the proxies of `deploy/cells`, HAProxy and nginx, in front of two small servers."""

import asyncio
import contextlib
import shutil
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from yarl import URL

from manilla.cells.maps import Proxy
from tests.support.instance import free_port
from tests.support.waiting import until

FILES = Path("deploy/cells")
CELLS = ("lagos", "abuja")
# Like Debian's service, HAProxy runs with a master process, which can reload the configuration.
COMMANDS = {Proxy.HAPROXY: ("haproxy", "-W", "-db", "-f"), Proxy.NGINX: ("nginx", "-c")}
RELOADS = {Proxy.HAPROXY: signal.SIGUSR2, Proxy.NGINX: signal.SIGHUP}
# With these commands, the proxies check their own configuration.
CHECKS = {Proxy.HAPROXY: ("haproxy", "-c", "-f"), Proxy.NGINX: ("nginx", "-t", "-q", "-c")}
SHIPPED_MAPS = {Proxy.HAPROXY: "/etc/haproxy/cells", Proxy.NGINX: "/etc/nginx/cells"}
NGINX_MAIN = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
access_log off;
client_body_temp_path {folder}/body;
proxy_temp_path {folder}/proxy;
fastcgi_temp_path {folder}/fastcgi;
uwsgi_temp_path {folder}/uwsgi;
scgi_temp_path {folder}/scgi;
{cells}
}}
"""


def is_missing(proxy: Proxy) -> bool:
    return shutil.which(COMMANDS[proxy][0]) is None


class RunningProxy:
    """A proxy that listens on a port of this machine."""

    def __init__(self, port: int, session: aiohttp.ClientSession, process: Process) -> None:
        self.port = port
        self._session = session
        self._process = process

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[str, str]:
        """Sends a request, and returns the cell that got it and the path as it arrived there."""
        url = URL(f"http://127.0.0.1:{self.port}{path}", encoded=True)
        async with self._session.get(url, headers=headers) as response:
            return response.headers["X-Cell"], await response.text()

    def reload(self, proxy: Proxy) -> None:
        """Makes the proxy read its map files again, as `systemctl reload` does."""
        self._process.send_signal(RELOADS[proxy])

    async def cell(self, path: str, **headers: str) -> str:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return (await self.get(path, named))[0]


@contextlib.asynccontextmanager
async def running(
    proxy: Proxy, folder: Path, maps: Mapping[str, str], urls: Mapping[str, str]
) -> AsyncIterator[RunningProxy]:
    """Runs the shipped configuration with these maps, in front of the cells' URLs."""
    port = free_port()
    config = write_config(proxy, folder, maps, urls, port)
    checked = await asyncio.create_subprocess_exec(*CHECKS[proxy], str(config))
    assert await checked.wait() == 0
    process = await asyncio.create_subprocess_exec(*COMMANDS[proxy], str(config))
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(60)) as session:
            await until(lambda: _responds(session, port, process))
            yield RunningProxy(port, session, process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def write_config(
    proxy: Proxy, folder: Path, maps: Mapping[str, str], urls: Mapping[str, str], port: int
) -> Path:
    """Writes the shipped configuration, with the addresses and map files of a test."""
    for name, content in maps.items():
        (folder / name).write_text(content)
    name = "haproxy.cfg" if proxy is Proxy.HAPROXY else "nginx.conf"
    text = (FILES / name).read_text().replace(SHIPPED_MAPS[proxy], str(folder))
    for number, cell in enumerate(CELLS, 1):
        text = text.replace(f"10.0.{number}.1:8000", urlsplit(urls[cell]).netloc)
    if proxy is Proxy.HAPROXY:
        bind = ":443 ssl crt /etc/ssl/manilla/pay.pem alpn h2,http/1.1"
        assert bind in text
        text = text.replace(bind, f"127.0.0.1:{port}")
    else:
        text = text.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
        kept = [line for line in text.splitlines() if "ssl_certificate" not in line]
        text = NGINX_MAIN.format(folder=folder, cells="\n".join(kept))
    config = folder / name
    config.write_text(text)
    return config


async def _responds(session: aiohttp.ClientSession, port: int, process: Process) -> bool:
    """Returns whether the proxy gets responses from the cells. It answers 503 until then."""
    assert process.returncode is None, "The proxy has ended."
    with contextlib.suppress(aiohttp.ClientError):
        for host in (f"{cell}.pay.example.com" for cell in CELLS):
            url = f"http://127.0.0.1:{port}/readyz"
            async with session.get(url, headers={"Host": host}) as response:
                if response.status != 200:
                    return False
        return True
    return False


@contextlib.asynccontextmanager
async def small_servers() -> AsyncIterator[dict[str, str]]:
    """Runs a server for each cell that responds with the request's path and the cell's name."""
    async with contextlib.AsyncExitStack() as stack:
        yield {cell: await stack.enter_async_context(_server(cell)) for cell in CELLS}


@contextlib.asynccontextmanager
async def _server(cell: str) -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=request.raw_path, headers={"X-Cell": cell})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()
