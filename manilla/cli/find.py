"""`manilla find`: finds the record with a given ID."""

from typing import Annotated

import msgspec
import typer

from manilla.cli.instance import InstanceRefusal, Tools, command
from manilla.lookup.find import find as find_id


@command()
async def find(
    tools: Tools,
    identifier: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="The ID of a payment, charge, refund, commission, payout, posting, customer "
            "(CUS…), customer's account (ACC…), saved way to pay (WAY…), "
            "notification (msg_…) or API request; a case number; or a payout's session ID or "
            "provider reference.",
        ),
    ],
) -> None:
    """Find the payment, payout, case or other record with an ID."""
    found = await find_id(tools.db, identifier)
    if found is None:
        raise InstanceRefusal(f"Nothing has the ID {identifier}.")
    tools.print_fields(msgspec.structs.asdict(found))
