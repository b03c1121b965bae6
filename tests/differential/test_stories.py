"""Plays a plan and writes the rows that it stored. `python -m tests.differential` compares them."""

import os
from typing import Any

import pytest

from tests.differential import plan
from tests.differential.payments import PaymentMachine
from tests.differential.plan import Story
from tests.differential.stored import Stored
from tests.payouts.model_machine import Machine, Stage
from tests.refunds.model_machine import RefundMachine

pytestmark = pytest.mark.skipif(plan.FILE not in os.environ, reason="There is no plan to play.")


async def test_a_plan_is_played(stage: Stage) -> None:
    plan.write_rows(
        [
            f"{number} {row}"
            for number, story in enumerate(plan.read())
            for row in await _play(stage, story)
        ]
    )


async def _play(stage: Stage, story: Story) -> list[str]:
    machine, merchant_id = await _machine(stage, story)
    for step in story.steps:
        await machine.happens(step.name, step.arguments)
    results = [f"result {each}" for each in getattr(machine, "results", [])]
    return results + await Stored(stage.services.db, merchant_id).rows()


async def _machine(stage: Stage, story: Story) -> tuple[Any, int]:
    match story.machine:
        case "payouts":
            payouts = await Machine.start(stage, story.rail, checks_every=40)
            return payouts, payouts.merchant.new.id
        case "refunds":
            refunds = await RefundMachine.start(stage, story.rail, checks_every=40)
            return refunds, refunds.shop.merchant.new.id
    payments = await PaymentMachine.start_with(stage, story.rail)
    return payments, payments.shop.merchant.new.id
