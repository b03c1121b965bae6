"""Chooses the rail for a payout, as a pure function of a snapshot.

The snapshot is stored with the attempt, so that the choice can be explained later.
"""

from enum import StrEnum

import msgspec


class SkipReason(StrEnum):
    """The reason why a rail was skipped. The first reason that applies is stored and shown."""

    TRIED = "already tried for this payout"
    NOT_OFFERED = "not configured, or disabled"
    DRAINING = "drained by an administrator"
    DOWN = "down"
    UNKNOWN_BANK = "does not know the bank"
    AMOUNT = "does not accept this amount"
    BALANCE = "its balance is too low"
    UNVERIFIED = "could not verify the account"
    OTHER_NAME = "reports another account holder"
    LATER = "comes later in the order"


class RailSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about one rail when the decision was made. Amounts are in minor units."""

    provider: str
    priority: int
    is_offered: bool = True
    is_draining: bool = False
    is_down: bool = False
    bank_code: str | None = None  # the rail's code for the bank
    minimum_minor: int = 1
    maximum_minor: int | None = None
    # The amount that the rail can pay out after its fee. If it is None (unknown), the rail decides.
    balance_minor: int | None = None
    fee_minor: int = 0  # the rail's fee for a transfer
    is_failing: bool = False  # whether most of the rail's recent transfers to this bank failed
    was_tried: bool = False
    problem: SkipReason | None = None  # a problem found when the rail verified the account


class RoutingSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    amount_minor: int
    bank: str  # the bank's code in our registry
    rails: tuple[RailSnapshot, ...]

    def with_problem(self, provider: str, problem: SkipReason) -> "RoutingSnapshot":
        rails = tuple(
            msgspec.structs.replace(rail, problem=problem) if rail.provider == provider else rail
            for rail in self.rails
        )
        return msgspec.structs.replace(self, rails=rails)


class RouteDecision(msgspec.Struct, frozen=True):
    snapshot: RoutingSnapshot
    provider: str | None  # None if no rail can send the payout
    skipped: dict[str, SkipReason]

    @property
    def text(self) -> str:
        skipped = "; ".join(
            f"{provider}: {reason}"
            for provider, reason in self.skipped.items()
            if reason is not SkipReason.LATER
        )
        return f"Sent by {self.provider}." + (f" Not chosen: {skipped}." if skipped else "")


def choose(snapshot: RoutingSnapshot) -> RouteDecision:
    """Chooses the best rail that can send the payout.

    Rails whose recent transfers to the bank do not fail come first. Among these, the
    administrators' order decides, and then the fee.
    """
    obstacles = {rail.provider: _obstacle(rail, snapshot.amount_minor) for rail in snapshot.rails}
    able = sorted(
        (rail for rail in snapshot.rails if obstacles[rail.provider] is None),
        key=lambda rail: (rail.is_failing, rail.priority, rail.fee_minor, rail.provider),
    )
    chosen = able[0].provider if able else None
    skipped = {
        provider: reason or SkipReason.LATER
        for provider, reason in obstacles.items()
        if provider != chosen
    }
    return RouteDecision(snapshot, chosen, skipped)


def _obstacle(rail: RailSnapshot, amount_minor: int) -> SkipReason | None:
    is_too_large = rail.maximum_minor is not None and amount_minor > rail.maximum_minor
    is_unfunded = rail.balance_minor is not None and rail.balance_minor < amount_minor
    obstacles = {
        SkipReason.TRIED: rail.was_tried,
        SkipReason.NOT_OFFERED: not rail.is_offered,
        SkipReason.DRAINING: rail.is_draining,
        SkipReason.DOWN: rail.is_down,
        SkipReason.UNKNOWN_BANK: rail.bank_code is None,
        SkipReason.AMOUNT: amount_minor < rail.minimum_minor or is_too_large,
        SkipReason.BALANCE: is_unfunded,
    }
    return next((reason for reason, applies in obstacles.items() if applies), rail.problem)
