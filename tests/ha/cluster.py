"""The cluster of `deploy/ha`: etcd and Patroni on three hosts, and HAProxy in front of them."""

import asyncio
import base64
import contextlib
import secrets
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import aiohttp
import asyncpg
import msgspec

from manilla.kit.database.connector import PASSING
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import APPLICATION, NAME, OWNER, SUPERUSER
from tests.ha.hosts import ETCD, PATRONI, PYTHON, ROOT, Host, account, create_hosts
from tests.support.started_program import StartedProgram

FILES = Path(__file__).parents[2] / "deploy" / "ha"
OVERRIDES = Path(__file__).with_name("machine.yml")
LEADER_KEY = base64.b64encode(b"/service/manilla/leader").decode()
POLL_SECONDS = 0.1
# A busy machine may need this long, for example to copy a whole database.
SETTLE_SECONDS = 600
POLLS = round(SETTLE_SECONDS / POLL_SECONDS)
# etcd and Patroni respond to a query within this time, or the next host is asked.
QUERY_SECONDS = 1
STANDBYS = 2
# A server that is starting, or that is a standby, may raise any of these errors.
REFUSALS = (asyncpg.PostgresError, asyncpg.InterfaceError)
COUNT_STANDBYS = """
    SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum'"""


class Election(msgspec.Struct, frozen=True):
    at: float  # the monotonic time
    leader: str
    revision: int  # The revision differs for each election, even if the same host wins.


class DatabaseCluster:
    def __init__(self, folder: Path, patroni: Path, etcd: Path) -> None:
        self._logs = folder
        self._password = {
            name: secrets.token_hex(16)
            for name in (SUPERUSER, OWNER, APPLICATION, "REPLICATION", "REWIND", "RESTAPI")
        }
        self.hosts = create_hosts(patroni, etcd)
        self._binaries = postgres.usable_binaries(account(), cache=ROOT / "binaries")
        self.elections: list[Election] = []

    async def open(self) -> Self:
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=QUERY_SECONDS))
        self._configure()
        for host in self.hosts:
            self.start_etcd(host)
        for host in self.hosts:
            self.start_patroni(host)
        self._watch = asyncio.create_task(self._watch_elections())
        self._start_haproxy()
        await self.until(self.is_healthy)
        await self.until(self._creates_database)
        return self

    async def close(self) -> None:
        self._watch.cancel()
        await self._http.close()

    def url(self, role: str, database: str = NAME) -> str:
        where = f"127.0.0.1:5432/{database}?target_session_attrs=read-write"
        return f"postgresql://{role}:{self._password[role]}@{where}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "MANILLA_DATABASE_URL": self.url(APPLICATION),
            "MANILLA_MIGRATION_URL": self.url(OWNER),
        }

    def start_etcd(self, host: Host) -> None:
        environment = _variables("etcd.env.example", host)
        environment["ETCD_DATA_DIR"] = str(ROOT / f"{host.name}-etcd")
        host.start([str(ETCD)], environment, self._logs / f"{host.name}-etcd.log")

    def start_patroni(self, host: Host) -> None:
        environment = _variables("patroni.env.example", host)
        for name in ("REPLICATION", "REWIND", "RESTAPI"):
            environment[f"PATRONI_{name}_PASSWORD"] = self._password[name]
        environment |= {
            "PATRONI_SUPERUSER_PASSWORD": self._password[SUPERUSER],
            "PATRONI_POSTGRESQL_DATA_DIR": str(host.data),
            "PATRONI_POSTGRESQL_BIN_DIR": str(self._binaries),
            "PATRONI_POSTGRESQL_PGPASS": str(host.folder / "pgpass"),
            # These variables replace the virtual environment, whose interpreter has another path.
            "PYTHONHOME": str(PYTHON),
            "LD_LIBRARY_PATH": str(PYTHON / "lib"),
            "PYTHONPATH": str(next(PATRONI.glob("lib/python*/site-packages"))),
        }
        interpreter = (PATRONI / "bin" / "python").resolve().name
        program = [str(PYTHON / "bin" / interpreter), "-m", "patroni"]
        command = [*program, str(ROOT / "configuration")]
        host.start(command, environment, self._logs / f"{host.name}-patroni.log")

    def _configure(self) -> None:
        """Copies Patroni's configuration, which the account that runs PostgreSQL must read."""
        folder = ROOT / "configuration"
        folder.mkdir()
        shutil.copyfile(FILES / "patroni.yml", folder / "1.yml")
        shutil.copyfile(OVERRIDES, folder / "2.yml")
        for host in self.hosts:
            own = ROOT / f"{host.name}-etcd"
            own.mkdir(mode=0o700)
            shutil.chown(own, account().uid, account().gid)

    def _start_haproxy(self) -> None:
        path = self._logs / "haproxy.log"
        with path.open("ab") as log:
            command = ["haproxy", "-db", "-f", str(FILES / "haproxy.cfg")]
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self._haproxy = StartedProgram("HAProxy", process, path)

    @property
    def primary(self) -> Host:
        return next(host for host in self.hosts if host.name == self.elections[-1].leader)

    @property
    def standbys(self) -> list[Host]:
        return [host for host in self.hosts if host is not self.primary]

    async def switch_over(self) -> None:
        """Makes another host the primary, as `patronictl switchover` does."""
        before = len(self.elections)

        async def has_begun() -> bool:
            # On a busy machine, Patroni may answer before it knows the result, or cannot ask etcd.
            return len(self.elections) > before or await self._ask_for_switchover()

        await self.until(has_begun)

    async def _ask_for_switchover(self) -> bool:
        leader = self.primary.name
        login = aiohttp.BasicAuth("patroni", self._password["RESTAPI"])
        limit = aiohttp.ClientTimeout(total=SETTLE_SECONDS)
        url = f"http://{leader}:8008/switchover"
        async with self._http.post(
            url, json={"leader": leader}, auth=login, timeout=limit
        ) as reply:
            return reply.status == 200

    async def is_healthy(self) -> bool:
        """Returns True if there is a primary and both other hosts can take over."""
        roles = [
            (each["role"], each["state"])
            for each in (await self._ask_any(":8008/cluster"))["members"]
        ]
        ready = ("quorum_standby", "streaming")
        if roles.count(("leader", "running")) != 1 or roles.count(ready) != STANDBYS:
            return False
        # What Patroni reports about a host that has just failed may be old.
        connection = await asyncpg.connect(self.url(SUPERUSER, "postgres"), timeout=QUERY_SECONDS)
        try:
            return bool(await connection.fetchval(COUNT_STANDBYS) == STANDBYS)
        finally:
            await connection.close(timeout=QUERY_SECONDS)

    async def until(self, is_so: Callable[[], Awaitable[bool]]) -> None:
        # Polls are counted instead of seconds, because the machine may stop this program.
        for _ in range(POLLS):
            for host in self.hosts:
                host.check()
            self._haproxy.check()
            with contextlib.suppress(*PASSING, *REFUSALS, aiohttp.ClientError, KeyError):
                if await is_so():
                    return
            await asyncio.sleep(POLL_SECONDS)
        raise TimeoutError(f"{is_so.__name__} is still false")

    async def _watch_elections(self) -> None:
        last = 0
        while True:
            with contextlib.suppress(OSError, TimeoutError, aiohttp.ClientError, KeyError):
                body = await self._ask_any(":2379/v3/kv/range", {"key": LEADER_KEY})
                [found] = body.get("kvs") or [None]
                if found is not None and (revision := int(found["create_revision"])) != last:
                    leader = base64.b64decode(found["value"]).decode()
                    self.elections.append(Election(time.monotonic(), leader, revision))
                    last = revision
            await asyncio.sleep(POLL_SECONDS)

    async def _ask_any(self, where: str, document: Any = None) -> Any:
        """Returns the first response of a host. All hosts are asked at the same time."""

        async def ask(host: Host) -> Any:
            method = "GET" if document is None else "POST"
            url = f"http://{host.address}{where}"
            async with self._http.request(method, url, json=document) as reply:
                reply.raise_for_status()
                return await reply.json(content_type=None)

        waiting = {asyncio.create_task(ask(host)) for host in self.hosts}
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if answered := [each for each in done if each.exception() is None]:
                    return answered[0].result()
        finally:
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        raise ConnectionError("no host responds")

    async def _creates_database(self) -> bool:
        """Creates the database. Until HAProxy has checked all hosts, connections may fail."""
        await postgres.create_database(self.url(SUPERUSER, "postgres"), self._password)
        return True


def _variables(file: str, host: Host) -> dict[str, str]:
    """Reads an example environment file, which describes db1, for another host."""
    found = {}
    for line in (FILES / file).read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            is_shared = name == "ETCD_INITIAL_CLUSTER"
            found[name] = value if is_shared else value.replace("db1", host.name)
    return found
