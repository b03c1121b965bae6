"""`manilla user`: manages the users of the dashboard and the console."""

import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import typer

from manilla.cli.instance import Data, Tools, command, run
from manilla.cli.options import OfMerchant
from manilla.cli.output import Json, as_row, as_rows
from manilla.kit.database.connections import Database
from manilla.kit.fields import Fields
from manilla.people import (
    console_people,
    invitations,
    links,
    members,
    persons,
    queries,
    resets,
    second_factor,
    sessions,
)
from manilla.people.company import providers
from manilla.people.members import Member
from manilla.people.queries import Person
from manilla.people.roles import ConsoleRole, Realm, Role
from manilla.people.sessions import OpenSession

app = typer.Typer(no_args_is_help=True)

LIST_PAGE = 1000

Email = Annotated[str, typer.Argument(metavar="EMAIL")]
RealmOfPerson = Annotated[Realm, typer.Option("--realm")]
PERSON = Fields(Person, role="console_role", second_factor="has_totp").select(
    "id realm email name role status has_password second_factor last_login_at"
)
MEMBER = Fields(Member, id="person_id", second_factor="has_totp").select(
    "id email name role status second_factor last_login_at"
)
SESSION = Fields(OpenSession, began_at="created_at").select(
    "id merchant_id began_at seen_at expires_at second_factor address user_agent"
)


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
    merchant: OfMerchant = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME")] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input.")
    ] = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Add a user. Without a password, prints a link for choosing a password."""
    if (realm is Realm.DASHBOARD) != (merchant is not None):
        raise typer.BadParameter("use --merchant ID, or --realm console.")
    if name is None and (realm is Realm.CONSOLE or password_stdin):
        raise typer.BadParameter("is required.", param_hint="--name")
    password = sys.stdin.read().rstrip("\r\n") if password_stdin else None
    run(data, lambda tools: _add(tools, merchant, email, name, role, password), as_json=as_json)


async def _add(
    tools: Tools,
    merchant_id: int | None,
    email: str,
    name: str | None,
    role: str,
    password: str | None,
) -> None:
    if merchant_id is None:
        added = await _add_to_console(tools, email, name or "", _console_role(role), password)
    else:
        added = await _add_to_merchant(tools, merchant_id, email, name, _role(role), password)
    tools.print_fields(added)


@command(app, "list")
async def list_(
    tools: Tools,
    merchant: OfMerchant = None,
    realm: Annotated[Realm | None, typer.Option("--realm")] = None,
) -> None:
    """List users, or a merchant's members."""
    rows: list[dict[str, Any]] = []
    if merchant is not None:
        rows = as_rows(MEMBER, await members.list_of(tools.db, merchant))
    else:
        while page := await queries.people(
            tools.db, realm, rows[-1]["id"] if rows else 0, LIST_PAGE
        ):
            rows += as_rows(PERSON, page)
    tools.print_rows(rows, empty="There are no users yet.")


@command(app)
async def reset(tools: Tools, email: Email, realm: RealmOfPerson = Realm.DASHBOARD) -> None:
    """Print a link for choosing a new password. The link works once, for one hour."""
    person = await persons.find(tools.db, realm, email)
    path = links.reset(realm, await resets.begin(tools.db, tools.keyring, person.id))
    tools.print_fields(_mail_result(tools, person.email, path))


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

    async def change_role(db: Database, person_id: int) -> None:
        await console_people.change_role(db, person_id, _console_role(role))

    run(data, lambda tools: _change(tools, email, realm, change_role), as_json=as_json)


@command(app)
async def disable(tools: Tools, email: Email, realm: RealmOfPerson) -> None:
    """Disable a user, and end their sessions."""
    await _change(tools, email, realm, persons.disable)


@command(app)
async def enable(tools: Tools, email: Email, realm: RealmOfPerson) -> None:
    """Enable a user again."""
    await _change(tools, email, realm, persons.enable)


@command(app, "totp-off")
async def totp_off(tools: Tools, email: Email, realm: RealmOfPerson) -> None:
    """Turn off a user's second factor, for example after a lost phone, and end all sessions."""
    await _change(tools, email, realm, second_factor.remove)


@command(app, "company-optional")
async def company_optional(tools: Tools, merchant: OfMerchant = None) -> None:
    """Let users of a merchant, or of the console, sign in with passwords again."""
    await providers.make_optional(tools.db, merchant or providers.CONSOLE)
    tools.print_fields({"merchant_id": merchant, "is_required": False})


@command(app, "sessions")
async def list_sessions(tools: Tools, email: Email, realm: RealmOfPerson = Realm.DASHBOARD) -> None:
    """List a user's sessions, the most recently used session first."""
    person = await persons.find(tools.db, realm, email)
    rows = as_rows(SESSION, await sessions.list_of(tools.db, person.id))
    tools.print_rows(rows, empty="The user is not signed in.")


@command(app, "sign-out")
async def sign_out(tools: Tools, email: Email, realm: RealmOfPerson = Realm.DASHBOARD) -> None:
    """End all of a user's sessions."""
    person = await persons.find(tools.db, realm, email)
    ended = await persons.sign_out(tools.db, person.id)
    tools.print_fields({"email": person.email, "realm": realm, "sessions_ended": ended})


async def _change(
    tools: Tools, email: str, realm: Realm, work: Callable[[Database, int], Awaitable[object]]
) -> None:
    person = await persons.find(tools.db, realm, email)
    await work(tools.db, person.id)
    tools.print_fields(as_row(PERSON, await persons.get(tools.db, person.id)))


async def _add_to_console(
    tools: Tools, email: str, name: str, role: ConsoleRole, password: str | None
) -> dict[str, Any]:
    new = await console_people.create(
        tools.db, tools.keyring, email=email, name=name, role=role, password=password
    )
    if new.token is None:
        return as_row(PERSON, new.person)
    path = links.invitation(Realm.CONSOLE, new.token)
    return {**as_row(PERSON, new.person), **_mail_result(tools, new.person.email, path)}


async def _add_to_merchant(
    tools: Tools, merchant_id: int, email: str, name: str | None, role: Role, password: str | None
) -> dict[str, Any]:
    if password is not None:
        person = await members.add(
            tools.db, merchant_id, email=email, name=name or "", role=role, password=password
        )
        return {**as_row(PERSON, person), "merchant_id": merchant_id, "role": role}
    token = await invitations.invite(tools.db, tools.keyring, None, merchant_id, email, role)
    path = links.invitation(Realm.DASHBOARD, token)
    mail_result = _mail_result(tools, persons.read_email(email), path)
    return {"merchant_id": merchant_id, "role": role, **mail_result}


def _mail_result(tools: Tools, email: str, path: str) -> dict[str, Any]:
    """Returns the email address, the link, and whether the link is also emailed."""
    return {"email": email, "link": tools.base_url + path, "is_emailed": tools.settings.has_mail}


def _console_role(text: str) -> ConsoleRole:
    if text not in list(ConsoleRole):
        raise persons.BadPerson(f"A console role must be one of: {', '.join(ConsoleRole)}.")
    return ConsoleRole(text)


def _role(text: str) -> Role:
    if text not in list(Role):
        raise persons.BadPerson(f"A merchant role must be one of: {', '.join(Role)}.")
    return Role(text)
