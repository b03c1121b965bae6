"""Caches are at most one second behind the database."""

import time
from types import SimpleNamespace

import pytest

from manilla.kit import changes
from manilla.kit.changes import STALE_AFTER_SECONDS, ChangeWatch
from manilla.kit.database.connections import Database


async def test_data_that_is_almost_a_second_old_is_read_again(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr(changes, "time", clock)
    watch, refreshed = ChangeWatch(db), list[int]()

    async def refresh(version: int) -> None:
        refreshed.append(version)

    watch.follow(changes.SETTINGS, refresh)
    await watch.ensure_fresh()
    async with db.transaction() as connection:
        version = await changes.announce(connection, changes.SETTINGS)
    now += STALE_AFTER_SECONDS - 0.01
    await watch.ensure_fresh()
    assert refreshed == [-1]
    now += 0.02
    await watch.ensure_fresh()
    assert refreshed == [-1, version - 1]
    assert STALE_AFTER_SECONDS < 1
