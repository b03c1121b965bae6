"""`manilla find`: what an id belongs to."""

from typing import Annotated

import msgspec
import typer

from manilla.cli.instance import Data, InstanceRefusal, Tools, run
from manilla.cli.output import Json, print_fields
from manilla.lookup.find import Found
from manilla.lookup.find import find as find_id


def find(
    identifier: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="Of a payment, charge, refund, commission, payout, posting, notification (msg_…), "
            "API request, or the number of a case.",
        ),
    ],
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Find what an id belongs to."""

    async def command(tools: Tools) -> Found:
        found = await find_id(tools.db, identifier)
        if found is None:
            raise InstanceRefusal(f"Nothing has the id {identifier}.")
        return found

    print_fields(msgspec.structs.asdict(run(data, command)), as_json=as_json)
