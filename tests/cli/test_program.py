"""The programs that start the processes of an installation."""

import asyncio

import pytest
import uvloop

from manilla import program, worker
from manilla.kit import crypto, logs
from manilla.settings import Settings


def test_the_worker_runs_on_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    """With uvloop, a worker needs a quarter less CPU time to process a payout."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def work(_settings: Settings) -> None:
        loops.append(asyncio.get_running_loop())

    monkeypatch.setattr(worker, "work", work)
    monkeypatch.setattr(logs, "configure", lambda _name: None)
    monkeypatch.setenv("MANILLA_MODE", "development")
    monkeypatch.setenv("MANILLA_DATABASE_URL", "postgresql://nobody@127.0.0.1/none")
    monkeypatch.setenv("MANILLA_MASTER_KEY", crypto.generate_key())
    monkeypatch.setenv("MANILLA_BASE_URL", "http://127.0.0.1:8000")
    monkeypatch.setattr("manilla.settings.apply_limits", lambda *_: None)
    program.worker()
    assert isinstance(loops[0], uvloop.Loop)
