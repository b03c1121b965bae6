"""`manilla find`: finds the record that has an ID."""

from typing import Annotated

import msgspec
import typer

from manilla.cli.instance import Data, InstanceRefusal, Tools, run
from manilla.cli.output import Json, print_fields
from manilla.lookup.find import LookupResult
from manilla.lookup.find import find as find_id


def find(
    identifier: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="The ID of a payment, charge, refund, commission, payout, posting, "
            "notification (msg_…) or API request, a case number, or a payout's session ID or "
            "the provider's reference.",
        ),
    ],
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Find the record that has an ID."""

    async def command(tools: Tools) -> LookupResult:
        found = await find_id(tools.db, identifier)
        if found is None:
            raise InstanceRefusal(f"Nothing has the ID {identifier}.")
        return found

    print_fields(msgspec.structs.asdict(run(data, command)), as_json=as_json)
