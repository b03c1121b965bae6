"""The kinds of providers. Each module or package in this folder declares one kind as `KIND`."""

import importlib
import pkgutil

from manilla.providers.kind import ProviderKind


def _find() -> dict[str, ProviderKind]:
    found = pkgutil.iter_modules(__path__)
    kinds = [importlib.import_module(f"{__name__}.{module.name}").KIND for module in found]
    return {kind.name: kind for kind in sorted(kinds, key=lambda kind: kind.title)}


KINDS: dict[str, ProviderKind] = _find()


def title_of(provider: str) -> str:
    return KINDS[provider].title if provider in KINDS else provider
