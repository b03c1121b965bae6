"""Gives commands access to the configured providers and their banks."""

import contextlib
from collections.abc import AsyncIterator

import typer

from manilla.banks.registry import BankRegistry
from manilla.beneficiaries.banks import Banks
from manilla.cli.instance import Tools
from manilla.kit.changes import ChangeWatch
from manilla.methods.catalogue import Catalogue
from manilla.providers import accounts
from manilla.providers.rails import Rails, open_client


async def check_provider(tools: Tools, provider: str | None) -> None:
    """Reports an unknown provider account as a usage error. None means all accounts."""
    if provider is None:
        return
    names = await accounts.load(tools.db)
    if provider not in names:
        known = ", ".join(names)
        raise typer.BadParameter(f"{provider!r} is not one of {known}.", param_hint="PROVIDER")


@contextlib.asynccontextmanager
async def configured_rails(tools: Tools) -> AsyncIterator[Rails]:
    async with open_client() as client:
        watch = ChangeWatch(tools.db)
        rails = Rails(tools.db, tools.keyring, watch, client, is_production_mode=False)
        await rails.load()
        yield rails


@contextlib.asynccontextmanager
async def known_banks(tools: Tools) -> AsyncIterator[Banks]:
    async with open_client() as client:
        watch = ChangeWatch(tools.db)
        rails = Rails(tools.db, tools.keyring, watch, client, is_production_mode=False)
        catalogue, registry = Catalogue(tools.db, watch, rails), BankRegistry(tools.db, watch)
        await watch.ensure_fresh()
        yield Banks(tools.db, rails, catalogue, registry)
