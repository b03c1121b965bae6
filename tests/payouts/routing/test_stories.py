"""Random sequences of events for payouts that move between rails: no payout is paid twice.

`make test` runs a few sequences. In `make test-all`, `MANILLA_STORIES` sets their number, half with
two rails and half with three; `make faults` raises it. The sequences are the same in every run. A
failing sequence prints its steps.
"""

import os
from collections.abc import AsyncIterator, Sequence

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.environment import Environment
from manilla.kit.jobs.runner import Runner
from manilla.providers import inbox
from manilla.services import Services
from manilla.settings import Settings
from tests.payouts.observer import PayoutObserver
from tests.payouts.payout_merchant import PayoutMerchant, method
from tests.payouts.routing import stalling
from tests.payouts.routing.routed import RoutedPayouts
from tests.payouts.routing.stories import RoutedStory
from tests.support.client import Site, new_merchant
from tests.support.provider_simulator import ProviderSimulator
from tests.support.rows import first_short

STORIES = int(os.environ.get("MANILLA_STORIES", "16"))
FIRST = int(os.environ.get("MANILLA_STORIES_FIRST", "0"))
SEEDS = range(FIRST, FIRST + STORIES // 2)
STEPS = 14


class StoryStage:
    """The resources that all sequences share: the platform, a simulator and a payout observer."""

    def __init__(
        self, services: Services, keyring: Keyring, site: Site, simulator: ProviderSimulator
    ) -> None:
        self.services = services
        self.keyring = keyring
        self.site = site
        self.simulator = simulator
        self.runner: Runner = stalling.runner(services)

    async def play(self, books: PayoutObserver, rails: str, seeds: Sequence[int]) -> int:
        """Runs the sequences, and returns how often payouts moved between rails."""
        moves = 0
        for seed in seeds:
            story = RoutedStory(await self._begin(books), self.runner, books, rails, seed)
            await story.play(STEPS)
            moves += story.moves
        return moves

    async def _begin(self, books: PayoutObserver) -> RoutedPayouts:
        """Creates a new merchant, and resets the providers."""
        await self.simulator.control("reset", {})
        db, site = self.services.db, self.site.from_new_ip()
        merchant = await new_merchant(site, db, self.keyring, environment=Environment.PRODUCTION)
        payer = PayoutMerchant(self.services, self.simulator, merchant)
        await payer.fund("10000")
        await books.of(merchant.new.id)
        for rail in "abc":
            await self.simulator.control(f"{rail}/balance", {"available": 100_000_000})
            quiet = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
            await self.simulator.control(f"{rail}/faults", quiet)
        return RoutedPayouts(payer)


@pytest.fixture
async def books(settings: Settings) -> AsyncIterator[PayoutObserver]:
    async with PayoutObserver.opened(settings.migration_url) as books:
        yield books


@pytest.fixture
async def stage(
    services: Services,
    keyring: Keyring,
    site: Site,
    simulator: ProviderSimulator,
    monkeypatch: pytest.MonkeyPatch,
) -> StoryStage:
    # Disable the minimum interval between status queries, because the test's steps are faster.
    monkeypatch.setattr(inbox, "QUERY_INTERVAL_SECONDS", 0.0)
    await services.db.execute("UPDATE rail_state SET is_down = false")
    await services.rails.health._refresh(0)
    return StoryStage(services, keyring, site, simulator)


# pytest runs the classes, one per number of rails, in parallel.


class TestTwoRails:
    @pytest.mark.parametrize("seeds", first_short([[6], SEEDS]), ids=["few", "many"])
    async def test_no_story_pays_a_payout_twice(
        self, stage: StoryStage, books: PayoutObserver, seeds: Sequence[int]
    ) -> None:
        async with method(stage.services, "c", active=False):
            assert await stage.play(books, "ab", seeds) > 0


class TestThreeRails:
    @pytest.mark.parametrize("seeds", first_short([[0, 5], SEEDS]), ids=["few", "many"])
    async def test_no_story_pays_a_payout_twice(
        self, stage: StoryStage, books: PayoutObserver, seeds: Sequence[int]
    ) -> None:
        assert await stage.play(books, "abc", seeds) > 0
