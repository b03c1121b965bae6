"""The summary that `manilla up` prints when all programs are running."""

import shlex
import time
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from manilla.api.authenticate import sign
from manilla.development import Demo
from manilla.merchants.credentials import NewCredentials
from manilla.settings import Settings


def print_summary(
    settings: Settings,
    seeded: Demo | None,
    folder: Path,
    seconds: float,
    *,
    fills_history: bool,
) -> None:
    console = Console(highlight=False)
    base_url = settings.base_url
    console.print()
    console.print(
        f"  [bold green]Manilla[/] is running at [bold]{base_url}[/]"
        f"  [dim]{settings.mode} mode, ready in {seconds:.1f} s[/]"
    )
    rows = [
        ("Dashboard", f"{base_url}/dashboard/"),
        ("Console", f"{base_url}/console/"),
        *([("Demo shop", f"{base_url}/shop")] if seeded else ()),
        ("API", f"{base_url}/api/v1"),
        ("Reference", f"{base_url}/docs"),
        ("OpenAPI", f"{base_url}/api/openapi.json"),
        ("Health", f"{base_url}/readyz"),
    ]
    if seeded is not None:
        rows.append(("Simulator", f"{seeded.simulator_url}/control (providers A, B and C)"))
    if fills_history:
        rows.append(("History", "a month of transactions is being filled in, oldest first"))
    rows.append(("Data, logs", f"{folder}, {folder}/logs"))
    console.print(Padding(_grid(*rows), (1, 2)))
    if seeded is not None:
        _print_demo(console, base_url, seeded)
    console.print("  [dim]Ctrl-C stops everything.[/]\n")


def _print_demo(console: Console, base_url: str, seeded: Demo) -> None:
    console.print(f"  [bold]{seeded.name}[/], merchant {seeded.merchant_id}")
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    table.add_column("sandbox", no_wrap=True)
    table.add_column("production", no_wrap=True)
    for name in ("merchant_key", "api_key", "api_secret"):
        table.add_row(name, getattr(seeded.sandbox, name), getattr(seeded.production, name))
    # Make the column wide enough for a key, because a wrapped key cannot be copied.
    wide = Console(highlight=False, width=max(console.width, 110))
    wide.print(Padding(table, (1, 2)))
    console.print("  For the clients and the sample shops:\n")
    print(exports(base_url, seeded.sandbox), end="\n\n")
    console.print("  Try it (the signature is valid for a few minutes):\n")
    print(signed_curl(base_url, seeded.sandbox), end="\n\n", flush=True)


def exports(base_url: str, credentials: NewCredentials) -> str:
    """Returns a shell command that sets the variables from which the clients read their keys."""
    values = {
        "MANILLA_URL": base_url,
        "MANILLA_MERCHANT_KEY": credentials.merchant_key,
        "MANILLA_API_KEY": credentials.api_key,
        "MANILLA_API_SECRET": credentials.api_secret,
    }
    return shlex.join(["export", *(f"{name}={value}" for name, value in values.items())])


def signed_curl(base_url: str, credentials: NewCredentials) -> str:
    """Returns a curl command with a signed request, valid until its timestamp is too old."""
    path, now = "/api/v1/site-info", int(time.time())
    headers = {
        "X-Environment": "sandbox",
        "X-Merchant-Key": credentials.merchant_key,
        "X-API-Key": credentials.api_key,
        "X-Timestamp": str(now),
        "X-Signature": sign(credentials.api_secret.encode(), now, "GET", path, b""),
    }
    parts = ["curl", "-sS", base_url + path]
    for name, value in headers.items():
        parts += ["-H", f"{name}: {value}"]
    return shlex.join(parts)


def _grid(*rows: tuple[str, str]) -> Table:
    grid = Table.grid(padding=(0, 3))
    for name, value in rows:
        grid.add_row(f"[dim]{name}[/]", value)
    return grid
