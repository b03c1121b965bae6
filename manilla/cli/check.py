"""`manilla check`: checks the configuration of an installation."""

from enum import StrEnum

import msgspec

from manilla.cli.instance import Tools, command
from manilla.sql import migrate

NO_MAIL = (
    "Neither MANILLA_SMTP_URL nor MANILLA_MAIL_HOOK is set. Users get no password links "
    "and no emails about payouts."
)


class CheckOutcome(StrEnum):
    OK = "ok"
    WARNING = "warning"  # Manilla can start, but some functions do not work


class ConfigurationCheck(msgspec.Struct, frozen=True):
    check: str
    result: CheckOutcome
    detail: str


@command()
async def check(tools: Tools) -> None:
    """Check variables, database, email and provider hosts. Exits with 1 if Manilla cannot start."""
    # A problem that prevents Manilla from starting raises an error and ends the command.
    await migrate.check_ready(tools.settings.database_url)
    results = [
        ConfigurationCheck("mode", CheckOutcome.OK, tools.settings.mode),
        ConfigurationCheck("secrets", CheckOutcome.OK, "; ".join(tools.settings.secret_sources)),
        ConfigurationCheck("database", CheckOutcome.OK, f"version {migrate.newest_revision()}"),
        await _providers(tools),
        _mail(tools),
    ]
    tools.print_rows([msgspec.structs.asdict(each) for each in results])


async def _providers(tools: Tools) -> ConfigurationCheck:
    """Warns about production accounts whose base_url is not the provider's own host with TLS.

    See decision record 26.
    """
    from manilla.providers import credentials

    accounts = await credentials.load(tools.db, tools.keyring)
    used = [each for each in accounts.values() if each.is_valid]
    elsewhere = [
        f"{each.provider} ({each.value('base_url')})" for each in used if not each.has_own_host
    ]
    if tools.is_production_mode and elsewhere:
        detail = f"Not the provider's own host with TLS: {', '.join(elsewhere)}."
        return ConfigurationCheck("providers", CheckOutcome.WARNING, detail)
    names = ", ".join(each.provider for each in used) or "none is configured"
    return ConfigurationCheck("providers", CheckOutcome.OK, names)


def _mail(tools: Tools) -> ConfigurationCheck:
    from manilla.wiring import mail_transport

    transport = mail_transport(tools.settings)
    if transport is not None:
        return ConfigurationCheck("mail", CheckOutcome.OK, transport.name)
    if tools.is_production_mode:
        return ConfigurationCheck("mail", CheckOutcome.WARNING, NO_MAIL)
    return ConfigurationCheck("mail", CheckOutcome.OK, "development mode: shown in the console")
