"""`manilla customer`: customers, their accounts, and their personal data."""

from typing import Annotated

import typer

from manilla.cli.instance import Tools, command
from manilla.cli.options import OfMerchant
from manilla.cli.output import as_row, as_rows
from manilla.customers import account_store, accounts, store
from manilla.customers.account import CustomerAccount
from manilla.customers.account_store import ProviderAccounts
from manilla.customers.customer import CustomerRow
from manilla.customers.store import CustomerFilter
from manilla.kit.environment import Environment
from manilla.kit.fields import Fields
from manilla.kit.listing import first, in_pages
from manilla.ledger.scope import Everyone, Tenant
from manilla.saved_ways import personal, revoking
from manilla.saved_ways import store as saved_ways
from manilla.saved_ways.way import SavedWay

app = typer.Typer(no_args_is_help=True)

LIST_MAX = 1000
ROW = Fields(CustomerRow).select("reference id merchant_id environment name status created_at")
COLUMNS = Fields(CustomerRow).select(
    "reference id merchant_id environment name email phone bvn_given nin_given ipn_url status"
    " created_at updated_at disabled_at erased_at"
)
ACCOUNTS = Fields(CustomerAccount).select(
    "id provider status account_number bank_name account_name email provider_reference error"
    " sent_at activated_at closed_at"
)
WAYS = Fields(SavedWay).select(
    "id kind status provider label expires_on payment_trx_id consented_at ended_by reason"
    " created_at"
)
PROVIDERS = Fields(ProviderAccounts).select("provider pending active failed closed last_error")

MerchantId = Annotated[int, typer.Argument(metavar="MERCHANT", help="The merchant's id.")]
Reference = Annotated[str, typer.Argument(help="The merchant's reference of the customer.")]
Sandbox = Annotated[bool, typer.Option("--sandbox", help="A customer in the sandbox.")]


def _tenant(merchant: int, *, sandbox: bool) -> Tenant:
    return Tenant(merchant, Environment.SANDBOX if sandbox else Environment.PRODUCTION)


@command(app, "list")
async def list_customers(
    tools: Tools,
    merchant: OfMerchant = None,
    search: Annotated[
        str | None, typer.Option("--search", help="A reference, name, email or account number.")
    ] = None,
) -> None:
    """List customers, newest first."""
    wanted = CustomerFilter(search=search)
    pages = in_pages(store.customers, tools.db, Everyone(merchant), wanted)
    tools.print_rows(as_rows(ROW, await first(pages, LIST_MAX)), empty="There are no customers.")


@command(app)
async def show(
    tools: Tools, merchant: MerchantId, reference: Reference, sandbox: Sandbox = False
) -> None:
    """Show a customer and its accounts."""
    found = await store.of_tenant(tools.db, _tenant(merchant, sandbox=sandbox), reference)
    listed = await account_store.accounts_of(tools.db, merchant, [found.id])
    fields = {**as_row(COLUMNS, found), "accounts": as_rows(ACCOUNTS, listed)}
    tools.print_record(fields, accounts="There are no accounts.")


@command(app)
async def providers(tools: Tools) -> None:
    """Count the accounts at each provider, with the last failure."""
    found = await account_store.at_providers(tools.db)
    tools.print_rows(as_rows(PROVIDERS, found), empty="There are no accounts.")


@command(app)
async def poll(tools: Tools, merchant: MerchantId, account: str) -> None:
    """Query the provider now about an account, and about transfers into it."""
    found = await account_store.account(tools.db, merchant, account)
    if found is None:
        raise typer.BadParameter(f"There is no account {account}.", param_hint="ACCOUNT")
    await accounts.raise_job(tools.db, found)
    tools.print_fields(as_row(ACCOUNTS, found))


@command(app)
async def close(
    tools: Tools, merchant: MerchantId, reference: Reference, account: str, sandbox: Sandbox = False
) -> None:
    """Close an account. Later transfers into it are held for review."""
    tenant = _tenant(merchant, sandbox=sandbox)
    closed = await accounts.close(tools.db, tenant, reference, account)
    tools.print_fields(as_row(ACCOUNTS, closed))


@command(app)
async def ways(
    tools: Tools, merchant: MerchantId, reference: Reference, sandbox: Sandbox = False
) -> None:
    """List a customer's saved cards and mandates."""
    found = await saved_ways.ways_of(tools.db, _tenant(merchant, sandbox=sandbox), reference)
    tools.print_rows(as_rows(WAYS, found), empty="There are no saved ways to pay.")


@command(app, "revoke-way")
async def revoke_way(
    tools: Tools, merchant: MerchantId, reference: Reference, way: str, sandbox: Sandbox = False
) -> None:
    """End a saved card or mandate. It can never be charged again."""
    ended = await revoking.revoke(tools.db, _tenant(merchant, sandbox=sandbox), reference, way)
    tools.print_fields(as_row(WAYS, ended))


@command(app)
async def export(
    tools: Tools, merchant: MerchantId, reference: Reference, sandbox: Sandbox = False
) -> None:
    """Print everything that is stored about a customer, except the encrypted BVN and NIN."""
    found = await personal.export(tools.db, _tenant(merchant, sandbox=sandbox), reference)
    tools.print_record(
        found,
        accounts="There are no accounts.",
        payments="There are no payments.",
        saved_ways="There are no saved ways to pay.",
    )


@command(app)
async def erase(
    tools: Tools, merchant: MerchantId, reference: Reference, sandbox: Sandbox = False
) -> None:
    """Erase a customer's personal data, close its accounts, and end its saved ways to pay.

    Payments and ledger entries stay.
    """
    erased = await personal.erase(tools.db, _tenant(merchant, sandbox=sandbox), reference)
    tools.print_fields(as_row(COLUMNS, erased))
