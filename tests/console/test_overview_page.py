"""The console's home page counts items that need action, even if one of the counts is slow."""

from manilla.console.installation.condition import Condition, ConditionPart
from manilla.kit.environment import Environment
from manilla.ledger.scope import Everyone
from manilla.payments import figures
from manilla.people.roles import ConsoleRole
from manilla.services import Services
from manilla.web import display
from tests.console.conftest import PopulatedConsole
from tests.support.limits import limited


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


# Maps a problem's page to its text, and to the statements that cause and end the problem.
PROBLEMS = {
    "/console/system": (
        "The oldest job has waited for 10 min",
        "INSERT INTO job (merchant_id, kind, subject, due_at)"
        " VALUES (1, 'of-a-test', 'late', now() - interval '10 minutes 5 seconds')",
        "DELETE FROM job WHERE subject = 'late'",
    ),
    "/console/ledger": (
        "The ledger has not been checked since ",
        "UPDATE proof SET ended_at = now() - interval '5 hours', findings = '[]'",
        "UPDATE proof SET ended_at = now()",
    ),
}


async def test_the_overview_names_each_problem_or_says_that_all_is_well(
    services: Services, populated: PopulatedConsole
) -> None:
    async def shown() -> str:
        return (await populated.administrator.get("/")).body.decode()

    assert "No day after 31 Jan 2026 has been signed off" in await shown()
    for path, (text, cause, end) in PROBLEMS.items():
        await services.db.execute(cause)
        assert f'<a href="{path}">{text}' in await shown()
        await services.db.execute(end)
        assert text not in await shown()
    condition = Condition([ConditionPart(fact="no job is late")])
    assert (condition.problems, condition.facts) == ([], ["no job is late"])


async def test_a_slow_count_does_not_hide_the_rest(populated: PopulatedConsole) -> None:
    with limited(optional_seconds=0):
        reply = await populated.administrator.get("/")
    assert reply.status == 200
    assert b"Unknown" in reply.body
    assert b"is taking too long" in reply.body
