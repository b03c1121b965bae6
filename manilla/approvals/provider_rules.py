"""Decides which changes to providers and methods need a second administrator in production mode.

Real money goes to the server at a valid account's base_url, and when that server reports a charge
as paid, a wallet is credited. So a single administrator must not be able to add such a server, or
to direct payments or payouts to another account.
"""

from collections.abc import Mapping

from manilla.methods import catalogue
from manilla.methods.method import Method
from manilla.providers.kind import Credentials

Accounts = Mapping[str, Credentials]  # all accounts by name


def is_any_valid(accounts: Accounts) -> bool:
    return any(each.is_valid for each in accounts.values())


def change_needs_second(accounts: Accounts, provider: str, wanted: Mapping[str, str]) -> bool:
    """Returns whether a change to a provider account's settings needs approval.

    The first provider's credentials need no approval, because otherwise nobody could set up an
    installation. A base_url outside the provider's own hosts always needs approval. Every value is
    compared with the stored one, because a request can repeat values that stay the same.
    """
    account = accounts[provider]
    changed = {
        name: value for name, value in wanted.items() if value != account.given.get(name, "")
    }
    is_elsewhere = not account.kind.is_own_host(changed.get("base_url", ""))
    return is_elsewhere or (is_any_valid(accounts) and _is_unsafe(account, changed))


def clearing_needs_second(accounts: Accounts, provider: str) -> bool:
    """Returns whether deleting an account's credentials needs approval.

    The first provider's credentials can be entered without approval. If deleting credentials needed
    no approval, one administrator could delete the only valid credentials and then enter others.
    """
    return accounts[provider].is_valid


def method_needs_second(accounts: Accounts, before: Method, after: Method) -> bool:
    """Returns whether a change to a method needs approval.

    Changes to fees and limits always need approval. Activating or reordering a method can send
    money to another account, so this needs approval if a valid account exists. Deactivating a
    method needs no approval.
    """
    is_directed = after.position != before.position or (after.active and not before.active)
    return catalogue.terms(before) != catalogue.terms(after) or (
        is_directed and is_any_valid(accounts)
    )


def _is_unsafe(account: Credentials, changed: Mapping[str, str]) -> bool:
    """Returns whether the change can send money to another account or server.

    Disabling a provider, or switching to its test account, needs no approval.
    """
    switches = {field.name for field in account.kind.fields if field.is_switch}
    return any(name not in switches or _goes_live(name, value) for name, value in changed.items())


def _goes_live(name: str, value: str) -> bool:
    return name == "sandbox" and value != "true"
