"""The console's home page counts items that need action, even if one of the counts is slow."""

from manilla.kit.environment import Environment
from manilla.ledger.scope import Everyone
from manilla.payments import figures
from manilla.people.roles import ConsoleRole
from manilla.services import Services
from manilla.web import display
from tests.console.conftest import PopulatedConsole
from tests.limits import limited


async def test_waiting_items_are_counted_and_link_to_their_queue(
    populated: PopulatedConsole,
) -> None:
    page = (await populated.people[ConsoleRole.SUPPORT].get("/?environment=sandbox")).body.decode()
    for title, path in (
        ("Manual payouts", "/console/payouts?environment=sandbox"),
        ("Pending approvals", "/console/approvals"),
        ("Open cases", "/console/cases?environment=sandbox"),
        ("Failed jobs", "/console/jobs"),
    ):
        assert title in page
        assert f'<a class="line" href="{path}"' in page


async def test_the_volume_covers_all_merchants_in_one_environment(
    services: Services, populated: PopulatedConsole
) -> None:
    for environment in Environment:
        page = (await populated.administrator.get(f"/?environment={environment}")).body.decode()
        days = await figures.daily(services.db, Everyone(environment=environment), "NGN")
        volume = sum(day.volume_minor for day in days)
        assert volume > 0 or environment is Environment.PRODUCTION
        assert f'<span class="figure">{display.minor(volume, "NGN")}</span>' in page
    assert (await populated.administrator.get("/?environment=moon&currency=XXX")).status == 200


async def test_a_slow_count_does_not_hide_the_rest(populated: PopulatedConsole) -> None:
    with limited(optional_seconds=0):
        reply = await populated.administrator.get("/")
    assert reply.status == 200
    assert b"Unknown" in reply.body
    assert b"is taking too long" in reply.body
