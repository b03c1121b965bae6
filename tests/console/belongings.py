"""What the platform has for its people to look at: whoever adds a parameter adds a sample."""

from manilla.approvals import approvals
from manilla.approvals.kinds import WalletAdjustment
from manilla.audit.actor import Actor, ActorKind, acting
from manilla.console.desk import ConsoleDesk
from manilla.kit.money import Money
from manilla.ledger.posting import Environment
from manilla.people import console_people, persons
from manilla.people.roles import ConsoleRole, Realm
from manilla.services import Services
from tests.client import Merchant
from tests.dashboard import belongings

SOMEBODY = Actor(ActorKind.COMMAND, None, "somebody at the keyboard")


async def furnish(
    services: Services, desk: ConsoleDesk, merchant: Merchant, text: str
) -> dict[str, str]:
    """`text` stands wherever somebody may write something."""
    return {
        "merchant": str(merchant.new.id),
        "environment": "sandbox",
        "currency": "NGN",
        "approval": str(await ask(desk, merchant, text)),
        **await _person(services, text),
        **await belongings.furnish(services, merchant, text),
    }


async def ask(desk: ConsoleDesk, merchant: Merchant, reason: str) -> int:
    """The number of an adjustment that waits for a second administrator."""
    change = WalletAdjustment(
        merchant.new.id, Environment.SANDBOX, Money.of("25", "NGN"), reason[:200]
    )
    with acting(SOMEBODY):
        return await approvals.request(desk.office, change, reason[:200])


async def _person(services: Services, text: str) -> dict[str, str]:
    """Somebody who was invited and has not come yet."""
    email = "invited@console.example"
    try:
        person = await persons.find(services.db, Realm.CONSOLE, email)
        token = await console_people.invite_again(services.db, person.id)
    except persons.PersonNotFound:
        new = await console_people.create(
            services.db, email=email, name=text[:100], role=ConsoleRole.SUPPORT
        )
        assert new.token is not None
        person, token = new.person, new.token
    return {"person": str(person.id), "token": token, "session": "1"}
