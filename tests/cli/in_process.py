"""Runs a group of commands against the test database."""

import asyncio
import base64
import json
from typing import Any

import typer
from typer.testing import CliRunner

from manilla.kit.errors import Refusal
from manilla.settings import Settings

BASE_URL = "https://pay.example.com"


def environment_of(settings: Settings) -> dict[str, str]:
    return {
        "MANILLA_DATABASE_URL": settings.database_url,
        "MANILLA_MASTER_KEY": base64.b64encode(settings.master_keys[0]).decode(),
        "MANILLA_BASE_URL": BASE_URL,
    }


class InProcessCommand:
    """Runs a command in this process, because starting a process for each command would be slow."""

    def __init__(self, app: typer.Typer, environment: dict[str, str]) -> None:
        self._app = app
        self.environment = environment

    async def run(self, *words: str, given: str = "") -> Any:
        runner = CliRunner(env=self.environment)
        return await asyncio.to_thread(
            lambda: runner.invoke(self._app, [*words, "--json"], input=given)
        )

    async def printed(self, *words: str, given: str = "") -> Any:
        done = await self.run(*words, given=given)
        assert done.exit_code == 0, (done.output, done.exception)
        # The output may start with log lines, because only `main` redirects the log.
        return json.loads(done.stdout.splitlines()[-1])

    async def refused(self, *words: str, given: str = "") -> str:
        done = await self.run(*words, given=given)
        assert isinstance(done.exception, Refusal), done.output
        assert done.stdout == ""
        return done.exception.text
