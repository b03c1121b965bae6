"""Which changes to providers and methods need a second administrator in production mode.

Real money goes wherever a valid account's base_url points, and a server that reports a charge as
paid credits a wallet. So one administrator alone can neither connect another server in addition to
the providers in use, nor direct payments or payouts to another account.
"""

from collections.abc import Mapping

from manilla.methods import catalogue
from manilla.methods.method import Method
from manilla.providers.kind import Credentials

Accounts = Mapping[str, Credentials]  # all accounts by name


def is_any_valid(accounts: Accounts) -> bool:
    return any(each.is_valid for each in accounts.values())


def change_needs_second(accounts: Accounts, provider: str, wanted: Mapping[str, str]) -> bool:
    """Whether setting these values needs approval.

    The first provider's credentials do not, because nobody could set up an installation otherwise.
    But even they must be for the provider's own hosts.
    """
    account = accounts[provider]
    if not account.kind.is_own_host(wanted.get("base_url", "")):
        return wanted["base_url"] != account.given.get("base_url")
    return is_any_valid(accounts) and _is_unsafe(account, wanted)


def clearing_needs_second(accounts: Accounts, provider: str) -> bool:
    """Whether deleting an account's credentials needs approval.

    Otherwise one administrator could delete the only valid ones, and then enter others as if for
    the first provider.
    """
    return accounts[provider].is_valid


def method_needs_second(accounts: Accounts, before: Method, after: Method) -> bool:
    """Whether a change to a method needs approval.

    Fees and limits always do. Activating a method, and changing the order, direct money to an
    account, so they do once there is an account. Deactivating never has to wait.
    """
    is_directed = after.position != before.position or (after.active and not before.active)
    return catalogue.terms(before) != catalogue.terms(after) or (
        is_directed and is_any_valid(accounts)
    )


def _is_unsafe(account: Credentials, wanted: Mapping[str, str]) -> bool:
    """Whether the change can direct money elsewhere.

    Disabling a provider, or switching to its test account, must never have to wait.
    """
    switches = {field.name for field in account.kind.fields if field.is_switch}
    return any(
        value != account.given.get(name, "") and (name not in switches or _goes_live(name, value))
        for name, value in wanted.items()
    )


def _goes_live(name: str, value: str) -> bool:
    return name == "sandbox" and value != "true"
