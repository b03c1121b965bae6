"""Disputes in the ledger and at the providers, and what administrators do about them.

Some providers have no API for disputes. Administrators record what these show, and send the
merchants' answers there.
"""

import contextlib
from types import SimpleNamespace
from typing import Any, cast

from manilla.audit.actor import Actor, ActorKind, acting
from manilla.disputes import manual
from manilla.job_kinds import JobKind
from manilla.kit import jobs
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.platform.settings import PlatformSettings
from manilla.providers.port import DisputeState, ReportedDisputeStatus
from manilla.providers.rails import Rails
from tests.simulation.disputed import FEE, LOST, STATUSES, Claim, DisputeRecord
from tests.simulation.observing import MAKE_DUE
from tests.simulation.plan import RAILS
from tests.simulation.shops import MerchantWorld, minor_of
from tests.simulation.world import World
from tests.support.kinds import BY_PROVIDER, BY_RAIL

WITH_LIST = ("paystack", "flutterwave")
WITH_API = (*WITH_LIST, "kora")
RECORDED_MANUALLY = [rail for rail in RAILS if rail not in WITH_LIST]
NOTE = "Simulated"
DISPUTES = """
    SELECT merchant_id, trx_id, payment_trx_id, provider, provider_reference, status,
           coalesce(answer, '') AS answer, withheld_minor, taken_minor, fee_minor, commission_minor
      FROM dispute ORDER BY merchant_id, trx_id"""
WAITING = "SELECT trx_id, accepted_minor FROM dispute WHERE answer IN ('review', 'manual')"


async def claims_of(world: MerchantWorld, rail: str) -> list[Claim]:
    """Returns all disputes at a provider."""
    listed = (await world.control(f"{rail}/disputes?limit=1000"))["disputes"]
    return [
        Claim(
            *(rail, each["reference"], each["payment_reference"], minor_of(each["amount"])),
            *(each["status"], minor_of(each["accepted"])),
            has_fee=rail in RECORDED_MANUALLY and each["id"] % 2 == 1,
        )
        for each in listed
    ]


async def records_of(world: MerchantWorld) -> list[DisputeRecord]:
    """Returns all disputes in the ledger."""
    found = [row for db in world.databases for row in await db.records(DISPUTES)]
    return [
        DisputeRecord(
            merchant=row["merchant_id"],
            trx_id=row["trx_id"],
            payment=row["payment_trx_id"],
            rail=BY_PROVIDER[row["provider"]].rail,
            reference=row["provider_reference"],
            status=row["status"],
            answer=row["answer"],
            withheld=row["withheld_minor"],
            taken=row["taken_minor"],
            fee=row["fee_minor"],
            commission=row["commission_minor"],
        )
        for row in found
    ]


async def poll(world: World) -> None:
    """Lets the jobs of disputes run now, as if time had passed."""
    await jobs.put_missing(world.live.db, JobKind.DISPUTES, WITH_LIST)
    await world.live.db.execute(MAKE_DUE, [JobKind.DISPUTE, JobKind.DISPUTES], [])


async def record_manually(world: World) -> None:
    """Administrators record the disputes whose status differs from what the provider shows."""
    known = {each.key: each for each in await records_of(world)}
    for rail in RECORDED_MANUALLY:
        for claim in await claims_of(world, rail):
            record = known.get(claim.key)
            if record is None or record.status != STATUSES[claim.status]:
                await _record(world, claim)


async def _record(world: World, claim: Claim) -> None:
    provider, settings = BY_RAIL[claim.rail].provider, PlatformSettings()
    # A dispute of an unpaid payment is rejected.
    with contextlib.suppress(Refusal), _acting(world):
        what = settings, provider, _state(claim), NOTE
        seen = await manual.preview(world.live.db, *what)
        await manual.record(world.live.db, *what, seen=seen)
        world.operations["administrator: record dispute"] += 1


def _state(claim: Claim) -> DisputeState:
    amount = claim.accepted if claim.status == "accepted" else claim.amount
    is_charged = claim.status == LOST and claim.has_fee
    return DisputeState(
        provider_reference=claim.reference,
        status=ReportedDisputeStatus(STATUSES[claim.status]),
        charge_reference=claim.charge,
        amount=Money("NGN", amount),
        fee=Money("NGN", FEE) if is_charged else None,
    )


async def send_manually(world: World) -> None:
    """Administrators approve answers, and send those that no API can send."""
    for row in await world.live.db.records(WAITING):
        dispute = await manual.find(world.live.db, row["trx_id"])
        if dispute.answer == "manual":
            rail = BY_PROVIDER[dispute.provider].rail
            [claim] = [
                each
                for each in await claims_of(world, rail)
                if each.reference == dispute.provider_reference
            ]
            command: dict[str, Any] = {"status": "contested"}
            if row["accepted_minor"]:
                accepted = min(row["accepted_minor"], claim.amount)
                command = {"status": "accepted", "amount": f"{accepted / 100:.2f}"}
            if claim.status == "open":
                await world.control(f"{rail}/disputes/{claim.reference}/resolve", command)
        with contextlib.suppress(Refusal), _acting(world):
            await manual.release(world.live.db, RAILS_WITH_API, PlatformSettings(), dispute, NOTE)
            world.operations["administrator: release answer"] += 1


def _adapter(provider: str) -> Any:
    return SimpleNamespace(disputes=object() if provider in WITH_API else None)


# What `release` needs to know about the providers.
RAILS_WITH_API = cast(Rails, SimpleNamespace(adapter=_adapter))


def _acting(world: World) -> contextlib.AbstractContextManager[None]:
    person = world.administrators[0]
    return acting(Actor(ActorKind.PERSON, person.person_id, person.email, "console"))
