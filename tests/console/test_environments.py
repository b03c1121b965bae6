"""Console queues show production by default, and the sandbox only if the user selects it."""

import re

from manilla.cases import cases
from manilla.cases.cases import CaseKind
from manilla.services import Services
from tests.console.conftest import PopulatedConsole

LISTS = ("/payouts", "/payouts?show=on_hold", "/payouts?show=stuck", "/refunds", "/cases")


def _in(path: str, environment: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}environment={environment}"


async def test_queues_show_production_unless_the_sandbox_is_selected(
    populated: PopulatedConsole,
) -> None:
    visitor = populated.administrator
    for path in LISTS:
        plain = (await visitor.get(path)).body.decode()
        chosen = (await visitor.get(_in(path, "sandbox"))).body.decode()
        assert 'class="switch-production" aria-current="true"' in plain
        assert 'class="switch-sandbox" aria-current="true"' in chosen
        assert '<span class="sub">Sandbox</span>' not in plain
        assert 'class="realm-console in-production"' in plain
        assert 'class="realm-console in-sandbox"' in chosen


async def test_a_sandbox_payout_is_not_in_the_production_payout_list(
    populated: PopulatedConsole, services: Services
) -> None:
    visitor = populated.administrator
    trx_id = await services.db.value(
        "SELECT trx_id FROM payout WHERE merchant_id = $1 AND provider IS NULL",
        populated.merchant.new.id,
    )
    for environment, is_there in (("", False), ("production", False), ("sandbox", True)):
        page = (await visitor.get(f"/payouts?environment={environment}")).body.decode()
        assert (f"/payouts/{trx_id}" in page) is is_there
    overview = (await visitor.get("/")).body.decode()
    counted = re.search(r"Manual payouts</span><span class=\"count\">(\d+)", overview)
    listed = (await visitor.get("/payouts")).body.decode().count('class="row-link"')
    assert (int(counted.group(1)) if counted else 0) == listed


async def test_a_case_without_an_environment_counts_as_production(
    populated: PopulatedConsole, services: Services
) -> None:
    async with services.db.transaction() as connection:
        await cases.open_case(
            connection, CaseKind.NO_ANSWER, "nobody-knows-it", "A test.", merchant_id=0
        )
    assert "nobody-knows-it" in (await populated.administrator.get("/cases")).body.decode()
    sandbox = await populated.administrator.get("/cases?environment=sandbox")
    assert "nobody-knows-it" not in sandbox.body.decode()
