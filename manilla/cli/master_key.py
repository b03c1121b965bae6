"""`manilla master-key`: generates master keys, and re-encrypts secrets with the current key."""

import typer

from manilla.approvals import approvals
from manilla.audit import audit
from manilla.audit.stream import targets
from manilla.cells import registry
from manilla.cells.moving import fence
from manilla.cli.instance import Data, Tools, command
from manilla.cli.output import Json, Output
from manilla.compliance import documents
from manilla.customers import customer
from manilla.disputes import evidence
from manilla.kit import crypto
from manilla.mail import outbox
from manilla.merchants import api_keys, credentials, merchants
from manilla.notify.endpoints import signing_keys
from manilla.people import second_factor
from manilla.people.company import providers as providers_of_sign_in
from manilla.platform import master_key
from manilla.providers import credentials as providers
from manilla.saved_ways import way

app = typer.Typer(no_args_is_help=True)

PLACES = (
    master_key.SEALED,
    credentials.SEALED,
    api_keys.SEALED,
    merchants.SEALED_BVN,
    providers.SEALED,
    approvals.SEALED,
    outbox.SEALED,
    second_factor.SEALED,
    documents.SEALED,
    evidence.SEALED,
    *customer.SEALED,
    way.SEALED,
    signing_keys.SEALED,
    registry.SEALED,
    providers_of_sign_in.SEALED,
    targets.SEALED,
)


@app.command()
def generate(as_json: Json = False, _data: Data = None) -> None:
    """Print a new master key, to be used as MANILLA_MASTER_KEY."""
    key = crypto.generate_key()
    Output(as_json).print_text(key, {"master_key": key})


@command(app)
async def rewrap(tools: Tools) -> None:
    """Re-encrypt every secret with the current master key.

    First set MANILLA_MASTER_KEY to the new key and MANILLA_MASTER_KEYS_PREVIOUS to the old key in
    all processes. Remove the old key after this command has succeeded.
    """
    moved = {
        f"{place.table}.{place.column}": await crypto.rewrap_column(
            tools.db, tools.keyring, place, fence.pass_copy
        )
        for place in PLACES
    }
    if any(moved.values()):
        async with tools.db.transaction() as connection:
            await audit.record(connection, "master_key.rewrap", "master_key", moved=moved)
    tools.print_fields(moved)
