"""`manilla mail`: tests the mail server, lists emails, and sends failed emails again."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from manilla.cli.instance import Data, InstanceRefusal, Tools, command, run
from manilla.cli.options import Limit
from manilla.cli.output import Json, as_row, as_rows
from manilla.kit.texts import is_email
from manilla.mail import listing
from manilla.mail.kinds import MailKind
from manilla.mail.listing import MailFilter, MailState
from manilla.mail.queries import Mail
from manilla.mail.transport import NotSent
from manilla.platform.settings import load
from manilla.proofs import going_live

app = typer.Typer(no_args_is_help=True)

COLUMNS = listing.FIELDS.select(
    "id merchant_id kind recipient state attempts created_at ended_at last_error"
)


@app.command("test")
def send_test(
    address: Annotated[str, typer.Argument(metavar="ADDRESS")],
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Send a test email immediately, and print the mail server's response."""
    if not is_email(address):
        raise typer.BadParameter("use an email address, such as ada@example.com.")
    run(data, lambda tools: _send_test(tools, address), as_json=as_json)


async def _send_test(tools: Tools, address: str) -> None:
    from manilla.mail.letter import LetterWriter
    from manilla.wiring import mail_transport

    transport = mail_transport(tools.settings)
    if transport is None:
        raise InstanceRefusal("Neither MANILLA_SMTP_URL nor MANILLA_MAIL_HOOK is set.")
    platform, sender = await load(tools.db), tools.settings.mail_from
    writer = LetterWriter(tools.keyring, lambda: platform.site_name, tools.base_url, sender)
    try:
        await transport.send(writer.write([_test_mail(address)]))
    except NotSent as failure:
        raise InstanceRefusal(f"The email was not sent: {failure}.") from None
    await going_live.record_test_mail(tools.db, transport.name)
    tools.print_fields({"recipient": address, "sent_by": transport.name})


def _test_mail(address: str) -> Mail:
    """Returns a test email, which is not stored in the outbox."""
    now = datetime.now(UTC)
    number = int(now.timestamp() * 1000)  # used for the Message-ID
    return Mail(0, number, MailKind.TEST, None, address, "{}", "/", None, number, 0, now)


@command(app, "list")
async def list_mails(
    tools: Tools,
    state: Annotated[MailState, typer.Option("--state")] = MailState.FAILED,
    limit: Limit = 100,
) -> None:
    """List emails with the given state, by default failed emails, newest first."""
    found = await listing.mails(tools.db, MailFilter(state=state), limit=limit)
    tools.print_rows(as_rows(COLUMNS, found.rows), empty=f"There are no {state} emails.")


@command(app)
async def retry(
    tools: Tools, mail_id: Annotated[int, typer.Argument(metavar="ID", min=1, max=2**62)]
) -> None:
    """Send a failed email again."""
    await listing.retry(tools.db, mail_id)
    tools.print_fields(as_row(COLUMNS, await listing.get(tools.db, mail_id)))
