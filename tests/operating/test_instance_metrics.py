"""The worker's backlog metrics match the database, and are zero once the backlog is processed."""

import re

import asyncpg

from manilla import instance_metrics
from manilla.cases import cases
from manilla.cases.cases import CaseAction, CaseKind
from manilla.kit import prometheus
from manilla.kit.database.connections import Database
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import Cluster
from manilla.merchants import outgoing
from manilla.proofs import restored
from manilla.providers import draining, queries
from manilla.providers.port import Direction
from manilla.resolutions import resolutions
from manilla.routing import deliveries
from manilla.routing.outcomes import Outcomes
from manilla.services import Services
from tests.payouts.payout_merchant import PayoutMerchant
from tests.support.provider_simulator import forget_outcomes


async def measured(db: Database) -> dict[str, float]:
    await instance_metrics.measure(db, ["transfer"])
    lines = re.findall(r"^(manilla_\S+) (\S+)$", prometheus.render().decode(), re.MULTILINE)
    return {name: float(value) for name, value in lines}


async def test_backlog_metrics_rise_and_fall_with_the_backlog(
    payer: PayoutMerchant, services: Services, db: Database
) -> None:
    await payer.order()  # The call also postpones the jobs of earlier tests.
    before = await measured(db)
    await outgoing.hold_all(db)
    trx_id = await payer.pay_out()
    kind, reference = CaseKind.UNKNOWN_REFERENCE, f"TXN-OF-{trx_id}"
    await cases.open_case(db, kind, reference, "A test.", merchant_id=payer.merchant.new.id)
    now = await measured(db)
    unsent = 'manilla_payouts_open{provider="providera",state="unsent"}'
    unknown = 'manilla_cases_open{kind="unknown_reference"}'
    due = 'manilla_jobs_due{kind="transfer"}'
    assert (now["manilla_payouts_held"], now[unsent]) == (1, before[unsent] + 1)
    assert (now[unknown], now[due]) == (before[unknown] + 1, before[due] + 1)
    assert now["manilla_database_connections_max"] == 100

    await restored.release(db, services.rails)
    await payer.check_until(trx_id, "completed")
    [case_id] = [case.id for case in await cases.cases(db) if case.reference == reference]
    await resolutions.resolve(db, case_id, "It was a test.", CaseAction.NOTHING)
    after = await measured(db)
    assert [after[name] - before[name] for name in (unsent, unknown, due)] == [0, 0, 0]
    assert after["manilla_payouts_held"] == 0
    decided = 'manilla_payouts_decided_total{event="delivered"}'
    # Running the jobs may also complete payouts of other tests.
    assert after[decided] >= before.get(decided, 0) + 1


async def test_rail_metrics_say_which_rails_fail_and_which_are_drained(
    payer: PayoutMerchant, services: Services, db: Database
) -> None:
    await forget_outcomes(services)
    await deliveries._add(db, ("providera", "058"), Outcomes(failed=3, delivered=1))
    await deliveries._add(db, ("providera", "044"), Outcomes(failed=1, delivered=3))
    # Two failures are too few for the bank to count as failing.
    await deliveries._add(db, ("providerb", "058"), Outcomes(failed=2))
    await draining.drain(db, "providerb")
    try:
        now = await measured(db)
    finally:
        await draining.undrain(db, "providerb")
        await forget_outcomes(services)
    expected = {"failed_share": (0.5, 0), "failing_banks": (1, 0), "drained": (0, 1)}
    for name, values in expected.items():
        found = [now[f'manilla_rail_{name}{{provider="provider{rail}"}}'] for rail in "ab"]
        assert tuple(found) == values, name
    after = await measured(db)
    rails = ("failed_share", "failing_banks", "drained")
    assert {after[f'manilla_rail_{name}{{provider="providera"}}'] for name in rails} == {0}


async def test_payouts_whose_rail_is_down_are_counted_unless_they_are_on_hold(
    payer: PayoutMerchant, services: Services, db: Database
) -> None:
    await payer.order()
    trx_id = await payer.pay_out()
    assert (await measured(db))["manilla_payouts_without_rail"] == 0
    async with db.transaction() as connection:
        await queries.set_rail_state(connection, "providera", Direction.PAY_OUT, is_down=True)
    try:
        now = await measured(db)
        await outgoing.hold_all(db)
        held = (await measured(db))["manilla_payouts_without_rail"]
    finally:
        async with db.transaction() as connection:
            await queries.set_rail_state(connection, "providera", Direction.PAY_OUT, is_down=False)
        await services.rails.health._refresh(0)
        await restored.release(db, services.rails)
    unsent = now['manilla_payouts_open{provider="providera",state="unsent"}']
    assert now["manilla_payouts_without_rail"] == unsent >= 1
    assert held == 0
    await payer.check_until(trx_id, "completed")
    assert (await measured(db))["manilla_payouts_without_rail"] == 0


async def test_replication_metrics_count_slots_without_a_connection_and_their_missing_wal(
    payer: PayoutMerchant, cluster: Cluster, db: Database
) -> None:
    before = await measured(db)
    assert before["manilla_replication_inactive"] == before["manilla_replication_behind_bytes"] == 0
    superuser = await asyncpg.connect(cluster.url(postgres.SUPERUSER))
    try:
        await superuser.execute("SELECT pg_create_physical_replication_slot('lost_standby', true)")
        await payer.order()
        now = await measured(db)
    finally:
        await superuser.execute("SELECT pg_drop_replication_slot('lost_standby')")
        await superuser.close()
    assert now["manilla_replication_inactive"] == 1
    assert now["manilla_replication_behind_bytes"] > 0
    after = await measured(db)
    assert after["manilla_replication_inactive"] == after["manilla_replication_behind_bytes"] == 0
