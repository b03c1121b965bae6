"""`manilla user`: users of the dashboard and the console."""

import sys
from typing import Annotated, Any

import typer

from manilla.cli.instance import Data, Tools, run
from manilla.cli.output import Json, print_fields, print_rows
from manilla.kit.clock import iso
from manilla.ledger import trx_ids
from manilla.people import (
    console_people,
    invitations,
    links,
    mail,
    members,
    persons,
    queries,
    resets,
    second_factor,
    sessions,
)
from manilla.people.members import Member
from manilla.people.queries import Person
from manilla.people.roles import ConsoleRole, Realm, Role
from manilla.people.sessions import OpenSession

app = typer.Typer(no_args_is_help=True)

LIST_PAGE = 1000

Email = Annotated[str, typer.Argument(metavar="EMAIL")]
RealmOfPerson = Annotated[Realm, typer.Option("--realm")]
MerchantOption = Annotated[
    int | None, typer.Option("--merchant", metavar="ID", min=1, max=trx_ids.MERCHANT_ID_MAX)
]


@app.command()
def add(
    email: Annotated[str, typer.Option("--email", metavar="EMAIL")],
    role: Annotated[
        str,
        typer.Option(
            "--role",
            metavar="ROLE",
            help="owner, developer, finance or viewer of a merchant; "
            "administrator, operations or support of the console.",
        ),
    ],
    realm: RealmOfPerson = Realm.DASHBOARD,
    merchant: MerchantOption = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME")] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input.")
    ] = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Add a user; without a password, print the link to choose one."""
    if (realm is Realm.DASHBOARD) != (merchant is not None):
        raise typer.BadParameter("use --merchant ID, or --realm console.")
    if name is None and (realm is Realm.CONSOLE or password_stdin):
        raise typer.BadParameter("is required.", param_hint="--name")
    password = sys.stdin.read().rstrip("\r\n") if password_stdin else None

    async def command(tools: Tools) -> dict[str, Any]:
        if merchant is None:
            return await _add_to_console(tools, email, name or "", _console_role(role), password)
        return await _add_to_merchant(tools, merchant, email, name, _role(role), password)

    print_fields(run(data, command), as_json=as_json)


@app.command("list")
def list_(
    merchant: MerchantOption = None,
    realm: Annotated[Realm | None, typer.Option("--realm")] = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """List users, or a merchant's members."""

    async def command(tools: Tools) -> list[dict[str, Any]]:
        if merchant is not None:
            return [_member(each) for each in await members.list_of(tools.db, merchant)]
        rows: list[dict[str, Any]] = []
        while page := await queries.people(
            tools.db, realm, rows[-1]["id"] if rows else 0, LIST_PAGE
        ):
            rows += [_shown(person) for person in page]
        return rows

    print_rows(run(data, command), as_json=as_json, empty="There are no users yet.")


@app.command()
def reset(
    email: Email, realm: RealmOfPerson = Realm.DASHBOARD, as_json: Json = False, data: Data = None
) -> None:
    """Print a link to choose a new password; it works once, for one hour."""

    async def command(tools: Tools) -> dict[str, Any]:
        person = await persons.find(tools.db, realm, email)
        link = links.reset(tools.base_url, realm, await resets.begin(tools.db, person.id))
        return await _mail_result(tools, mail.MailKind.RESET, person.email, link)

    print_fields(run(data, command), as_json=as_json)


@app.command()
def role(
    email: Email,
    role: Annotated[
        str, typer.Argument(metavar="ROLE", help="administrator, operations or support.")
    ],
    realm: RealmOfPerson = Realm.CONSOLE,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Change a console user's role."""
    if realm is not Realm.CONSOLE:
        raise typer.BadParameter("a merchant's owner changes roles in the dashboard.")

    async def command(tools: Tools) -> dict[str, Any]:
        person = await persons.find(tools.db, realm, email)
        await console_people.change_role(tools.db, person.id, _console_role(role))
        return _shown(await persons.get(tools.db, person.id))

    print_fields(run(data, command), as_json=as_json)


@app.command()
def disable(email: Email, realm: RealmOfPerson, as_json: Json = False, data: Data = None) -> None:
    """Disable a user, and end their sessions."""

    async def command(tools: Tools) -> dict[str, Any]:
        person = await persons.find(tools.db, realm, email)
        await persons.disable(tools.db, person.id)
        return _shown(await persons.get(tools.db, person.id))

    print_fields(run(data, command), as_json=as_json)


@app.command()
def enable(email: Email, realm: RealmOfPerson, as_json: Json = False, data: Data = None) -> None:
    """Enable a user again."""

    async def command(tools: Tools) -> dict[str, Any]:
        person = await persons.find(tools.db, realm, email)
        await persons.enable(tools.db, person.id)
        return _shown(await persons.get(tools.db, person.id))

    print_fields(run(data, command), as_json=as_json)


@app.command("totp-off")
def totp_off(email: Email, realm: RealmOfPerson, as_json: Json = False, data: Data = None) -> None:
    """Turn off a user's second factor (for a lost phone), and end all their sessions."""

    async def command(tools: Tools) -> dict[str, Any]:
        person = await persons.find(tools.db, realm, email)
        await second_factor.remove(tools.db, person.id)
        return _shown(await persons.get(tools.db, person.id))

    print_fields(run(data, command), as_json=as_json)


@app.command("sessions")
def list_sessions(
    email: Email, realm: RealmOfPerson = Realm.DASHBOARD, as_json: Json = False, data: Data = None
) -> None:
    """List a user's sessions, most recently seen first."""

    async def command(tools: Tools) -> list[dict[str, Any]]:
        person = await persons.find(tools.db, realm, email)
        return [_session(each) for each in await sessions.list_of(tools.db, person.id)]

    print_rows(run(data, command), as_json=as_json, empty="The user is not signed in.")


@app.command("sign-out")
def sign_out(
    email: Email, realm: RealmOfPerson = Realm.DASHBOARD, as_json: Json = False, data: Data = None
) -> None:
    """End all of a user's sessions."""

    async def command(tools: Tools) -> dict[str, Any]:
        person = await persons.find(tools.db, realm, email)
        ended = await persons.sign_out(tools.db, person.id)
        return {"email": person.email, "realm": realm, "sessions_ended": ended}

    print_fields(run(data, command), as_json=as_json)


async def _add_to_console(
    tools: Tools, email: str, name: str, role: ConsoleRole, password: str | None
) -> dict[str, Any]:
    new = await console_people.create(
        tools.db, email=email, name=name, role=role, password=password
    )
    if new.token is None:
        return _shown(new.person)
    link = links.invitation(tools.base_url, Realm.CONSOLE, new.token)
    mail_result = await _mail_result(tools, mail.MailKind.INVITATION, new.person.email, link)
    return {**_shown(new.person), **mail_result}


async def _add_to_merchant(
    tools: Tools, merchant_id: int, email: str, name: str | None, role: Role, password: str | None
) -> dict[str, Any]:
    if password is not None:
        person = await members.add(
            tools.db, merchant_id, email=email, name=name or "", role=role, password=password
        )
        return {**_shown(person), "merchant_id": merchant_id, "role": role}
    token = await invitations.invite(tools.db, None, merchant_id, email, role)
    link = links.invitation(tools.base_url, Realm.DASHBOARD, token)
    mail_result = await _mail_result(
        tools, mail.MailKind.INVITATION, persons.read_email(email), link
    )
    return {"merchant_id": merchant_id, "role": role, **mail_result}


async def _mail_result(tools: Tools, kind: mail.MailKind, email: str, link: str) -> dict[str, Any]:
    """Returns the link, whether or not the mail hook accepted the email."""
    sent = await mail.Mailer(tools.mail_hook).send(mail.Email(kind, email, link))
    return {"email": email, "link": link, "sent_by_mail_hook": sent}


def _console_role(text: str) -> ConsoleRole:
    if text not in list(ConsoleRole):
        raise persons.BadPerson(f"A console role must be one of: {', '.join(ConsoleRole)}.")
    return ConsoleRole(text)


def _role(text: str) -> Role:
    if text not in list(Role):
        raise persons.BadPerson(f"A merchant role must be one of: {', '.join(Role)}.")
    return Role(text)


def _shown(person: Person) -> dict[str, Any]:
    return {
        "id": person.id,
        "realm": person.realm,
        "email": person.email,
        "name": person.name,
        "role": person.console_role,
        "status": person.status,
        "has_password": person.has_password,
        "second_factor": person.has_totp,
        "last_login_at": iso(person.last_login_at) if person.last_login_at else None,
    }


def _member(member: Member) -> dict[str, Any]:
    return {
        "id": member.person_id,
        "email": member.email,
        "name": member.name,
        "role": member.role,
        "status": member.status,
        "second_factor": member.has_totp,
        "last_login_at": iso(member.last_login_at) if member.last_login_at else None,
    }


def _session(session: OpenSession) -> dict[str, Any]:
    return {
        "id": session.id,
        "merchant_id": session.merchant_id,
        "began_at": iso(session.created_at),
        "seen_at": iso(session.seen_at),
        "expires_at": iso(session.expires_at),
        "second_factor": session.second_factor,
        "address": session.address,
        "user_agent": session.user_agent,
    }
