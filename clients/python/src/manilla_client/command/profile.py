"""`manilla-client profile` stores the keys of several accounts, and selects the default account."""

import argparse
import getpass
import sys
from typing import Any

from manilla_client.command import accounts
from manilla_client.command.accounts import Account, Profiles
from manilla_client.command.failure import CommandFailed

LABELS = {
    "url": "URL of the platform",
    "merchant_key": "Merchant key",
    "api_key": "API key",
    "api_secret": "API secret",
}


def add_to(commands: Any) -> None:
    about = "Store the keys of several accounts, and choose which to use."
    parser = commands.add_parser("profile", help=about, description=about)
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    about = (
        "Store a profile. Asks for the URL and the three keys, or reads them from standard input, "
        "one per line: URL, merchant key, API key, API secret."
    )
    add = actions.add_parser("add", help="Store a profile.", description=about)
    add.add_argument("name", metavar="NAME")
    add.add_argument(
        "--from-environment", action="store_true", help="Read them from the MANILLA_ variables."
    )
    add.set_defaults(run=_add)
    actions.add_parser("list", help="List the profiles.").set_defaults(run=_list)
    for name, about, run in (
        ("use", "Use this profile from now on.", _use),
        ("remove", "Delete a profile.", _remove),
    ):
        action = actions.add_parser(name, help=about, description=about)
        action.add_argument("name", metavar="NAME")
        action.set_defaults(run=run)


def _add(given: argparse.Namespace) -> int:
    name = accounts.check_name(given.name)
    stored = Profiles.load()
    if given.from_environment:
        account = accounts.of_variables(name)
    else:
        account = Account.of(name, {part: _ask(part) for part in LABELS})
    stored.add(account)
    print(f"Stored {name} ({account.credentials.environment}).")
    return 0


def _ask(part: str) -> str:
    if not sys.stdin.isatty():
        answer = sys.stdin.readline()
    elif part == "url":
        answer = input(f"{LABELS[part]}: ")
    else:
        answer = getpass.getpass(f"{LABELS[part]}: ")
    if not answer.strip():
        raise CommandFailed(f"{LABELS[part]} is missing.")
    return answer.strip()


def _list(_: argparse.Namespace) -> int:
    stored = Profiles.load()
    for name in sorted(stored.profiles):
        account = stored.find(name)
        mark = "*" if name == stored.current else " "
        print(f"{mark} {name}  {account.credentials.environment}  {account.url}")
    return 0


def _use(given: argparse.Namespace) -> int:
    Profiles.load().use(given.name)
    return 0


def _remove(given: argparse.Namespace) -> int:
    Profiles.load().remove(given.name)
    return 0
