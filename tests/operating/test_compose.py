"""The files of deploy/compose: valid, without secrets in the environment, and with few rights."""

import asyncio
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml  # type: ignore[import-untyped]
from yarl import URL

from manilla.cli.main import COMMANDS
from manilla.services import Services
from manilla.variables import VARIABLES
from tests.operating.test_alerts import skip_without_promtool
from tests.support.certificates import Certificate
from tests.support.client import Site, new_merchant
from tests.support.instance import free_port
from tests.support.waiting import until

FOLDER = "deploy/compose"
OURS = ("migrate", "api", "worker")
INFO = "/api/v1/site-info"
CONNECTIONS_MAX = 8


@pytest.fixture(scope="module")
def document(project: Path) -> Any:
    return yaml.safe_load((project / FOLDER / "compose.yaml").read_text())


def test_the_compose_file_matches_the_schema_of_the_compose_specification(project: Path) -> None:
    file = project / FOLDER / "compose.yaml"
    program = [sys.executable, "-m", "check_jsonschema"]
    command = [*program, "--builtin-schema", "vendor.compose-spec", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_our_services_run_commands_that_exist_with_variables_that_exist(document: Any) -> None:
    services = document["services"]
    assert {services[name]["command"][0] for name in ("migrate", "worker")} <= set(COMMANDS)
    known = {variable.name for variable in VARIABLES}
    known |= {f"{variable.name}_FILE" for variable in VARIABLES if variable.is_secret}
    for name in OURS:
        assert services[name]["environment"].keys() <= known


def test_secrets_are_files_that_only_the_services_that_need_them_get(document: Any) -> None:
    text = str(document["services"])
    assert "PASSWORD:" not in text.replace("'", "")
    for secret in document["secrets"].values():
        assert secret.keys() == {"file"}
    given = {
        name: {each if isinstance(each, str) else each["source"] for each in service["secrets"]}
        for name, service in document["services"].items()
        if "secrets" in service
    }
    assert given["api"] == given["worker"] == {"database_url", "master_key"}
    with_owner = [name for name, secrets in given.items() if "migration_url" in secrets]
    assert with_owner == ["migrate"]
    for name in OURS:
        files = {
            Path(value).name
            for key, value in document["services"][name]["environment"].items()
            if key.endswith("_FILE")
        }
        assert files == given[name]


def test_each_service_has_few_rights_limits_and_a_health_check(document: Any) -> None:
    for name, service in document["services"].items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["deploy"]["resources"]["limits"].keys() >= {"memory", "pids"}, name
        # The API's image already has a health check. The migration runs once, so it has none.
        assert ("healthcheck" in service) is (name != "api"), name
        if name not in OURS:
            assert re.fullmatch(r"[1-9]\d*:\d+", service["user"]), name
            assert re.search(r":v?\d+\.\d+", service["image"]), f"{name}: the tag is not pinned"


def test_published_ports_are_on_loopback_unless_the_operator_changes_them(document: Any) -> None:
    ports = [port for service in document["services"].values() for port in service.get("ports", ())]
    assert len(ports) == 4
    for port in ports:
        assert re.match(r"(\$\{\w+:-)?127\.0\.0\.1:", port), port
    assert "ports" not in document["services"]["database"]


def test_haproxy_and_the_api_share_only_the_network_that_manilla_trusts(document: Any) -> None:
    """Otherwise HAProxy could reach the API from an address that Manilla does not trust."""
    services = document["services"]
    shared = set(services["proxy"]["networks"]) & set(services["api"]["networks"])
    assert shared == {"proxy"}
    [network] = document["networks"]["proxy"]["ipam"]["config"]
    assert network["subnet"] == services["api"]["environment"]["MANILLA_TRUSTED_PROXIES"]
    assert document["networks"]["database"]["internal"]


def test_secrets_sh_creates_secrets_that_only_their_container_can_read(
    project: Path, tmp_path: Path, document: Any
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files to other users")
    folder = tmp_path / "secrets"
    command = [str(project / FOLDER / "secrets.sh"), str(folder), "https://pay.example.com"]
    subprocess.run(command, check=True, capture_output=True)
    named = {
        Path(secret["file"].replace("${MANILLA_SECRETS:?}", "/")).name
        for secret in document["secrets"].values()
    }
    assert {file.name for file in folder.iterdir()} == {*named, "compose.env"}
    owners = {"10001": OURS, "999": ("database",), "472": ("grafana",), "99": ("proxy",)}
    for file in folder.iterdir():
        state = file.stat()
        if file.name != "compose.env":
            assert state.st_mode & 0o777 == 0o400, file.name
            assert str(state.st_uid) in owners, file.name
    roles = (folder / "roles.sql").read_text()
    password = re.findall("manilla_app LOGIN PASSWORD '(.*)'", roles)[0]
    assert f":{password}@database/" in (folder / "database_url").read_text()
    manual = (project / "docs/operating/installing.md").read_text()
    create = re.findall("CREATE DATABASE.*?;", manual, re.DOTALL)[0]
    assert create.split() == re.findall("CREATE DATABASE.*?;", roles, re.DOTALL)[0].split()
    key = (folder / "master_key").read_bytes()
    again = subprocess.run(command, check=False, capture_output=True)
    assert again.returncode == 1
    assert (folder / "master_key").read_bytes() == key


def test_promtool_accepts_the_prometheus_configuration(project: Path) -> None:
    skip_without_promtool()
    file = project / FOLDER / "prometheus.yml"
    subprocess.run(["promtool", "check", "config", "--syntax-only", file], check=True)
    ports = re.findall(r"port: (\d+)", file.read_text())
    compose = (project / FOLDER / "compose.yaml").read_text()
    assert ports == ["8000", re.findall(r'--metrics-port, "(\d+)"', compose)[0]]


class Proxy:
    """HAProxy with the configuration of deploy/compose, in front of the tests' API."""

    def __init__(self, plain: int, public: int, session: aiohttp.ClientSession) -> None:
        self.plain = f"http://127.0.0.1:{plain}"
        self.public = f"https://localhost:{public}"
        self.session = session

    async def is_up(self) -> bool:
        try:
            async with self.session.get(f"{self.public}/readyz") as reply:
                return reply.status == 200
        except aiohttp.ClientConnectionError:
            return False


@pytest.fixture(scope="module")
async def proxy(
    project: Path, tmp_path_factory: pytest.TempPathFactory, site: Site
) -> AsyncIterator[Proxy]:
    if shutil.which("haproxy") is None:
        pytest.skip("haproxy is not installed; Debian's package is haproxy")
    folder = tmp_path_factory.mktemp("haproxy")
    certificate = Certificate(folder)
    plain, public = free_port(), free_port()
    text = (project / FOLDER / "haproxy.cfg").read_text()
    for old, new in (
        (":8080", f"127.0.0.1:{plain}"),
        (":8443", f"127.0.0.1:{public}"),
        ("/run/secrets/certificate", str(certificate.file)),
        (" resolvers containers init-addr none", ""),
        ("server-template api 2 api:8000", f"server api 127.0.0.1:{site.port}"),
        ("sc0_conn_cur gt 500", f"sc0_conn_cur gt {CONNECTIONS_MAX}"),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "haproxy.cfg").write_text(text)
    command = ["haproxy", "-db", "-f", str(folder / "haproxy.cfg")]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL)
    try:
        connector = aiohttp.TCPConnector(ssl=certificate.of_client())
        async with aiohttp.ClientSession(connector=connector) as session:
            running = Proxy(plain, public, session)
            await until(running.is_up)
            yield running
    finally:
        process.terminate()
        await process.wait()


async def test_a_signed_call_passes_haproxy_unchanged(
    proxy: Proxy, site: Site, services: Services
) -> None:
    merchant = await new_merchant(site, services.db, services.keyring)
    target = f"{INFO}?b=%2F&a=%20//x"
    headers = merchant.headers("GET", target)
    url = URL(f"{proxy.public}{target}", encoded=True)
    async with proxy.session.get(url, headers=headers) as reply:
        assert reply.status == 200, await reply.text()
        assert reply.headers["Strict-Transport-Security"] == "max-age=31536000; includeSubDomains"


async def test_haproxy_hides_metrics_and_rejects_bodies_that_are_too_large(proxy: Proxy) -> None:
    async with proxy.session.get(f"{proxy.public}/metrics") as reply:
        assert reply.status == 404
    headers = {"Content-Length": str(16 * 1024 * 1024 + 1)}
    begin = io.BytesIO(b"x" * 128 * 1024)  # more than HAProxy buffers before it decides
    url = f"{proxy.public}/webhooks/paystack"
    async with proxy.session.post(url, data=begin, headers=headers) as reply:
        assert reply.status == 413


async def test_haproxy_limits_the_connections_of_one_address(proxy: Proxy) -> None:
    """Which connection is reset is not fixed: HAProxy's threads accept them in any order."""
    port, source = int(proxy.public.rpartition(":")[2]), ("127.0.0.3", 0)
    async with contextlib.AsyncExitStack() as stack:

        async def read_all() -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=source)
            stack.callback(writer.close)
            return await reader.read()

        reads = [asyncio.create_task(read_all()) for _ in range(CONNECTIONS_MAX + 1)]
        ended, still_open = await asyncio.wait(reads, return_when=asyncio.FIRST_COMPLETED)
        with pytest.raises(ConnectionResetError):
            await ended.pop()
        assert not ended
        for each in still_open:
            each.cancel()
        await asyncio.gather(*still_open, return_exceptions=True)


async def test_haproxy_redirects_only_pages_to_tls(proxy: Proxy) -> None:
    """A redirected API call would already have sent its keys without TLS."""
    for path in (INFO, "/webhooks/paystack"):
        async with proxy.session.get(proxy.plain + path, allow_redirects=False) as reply:
            assert reply.status == 403
    async with proxy.session.get(f"{proxy.plain}/dashboard", allow_redirects=False) as reply:
        assert reply.status == 301
        assert reply.headers["Location"].startswith("https://")
