"""Creates the demo history day by day. After an interruption, the next run adds what is missing."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path

import aiohttp
import structlog

from manilla.kit.clock import LAGOS
from manilla.kit.errors import Refusal
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantStatus
from manilla.notify.queries import RETRY_SECONDS
from manilla.services import Services
from manilla_simulator.history import file, moving, offices, plan
from manilla_simulator.history.businesses import APPLICANT_EMAIL, APPLICANT_NAME, BUSINESSES
from manilla_simulator.history.clock import MovedClock
from manilla_simulator.history.control import SimulatorControl
from manilla_simulator.history.file import HistoryFile
from manilla_simulator.history.patience import until
from manilla_simulator.history.running import StoryRunner
from manilla_simulator.history.story import CREATING, PaymentStory, Story

log = structlog.get_logger(__name__)

APPLIED = timedelta(minutes=50)
PROVIDERS = ("providera", "providerb", "providerc")
QUIET_SECONDS = 10


class ProvidersChanged(Exception):
    """Another provider was connected. It must not receive payouts of the demo history."""


class HistoryFiller:
    def __init__(
        self, services: Services, clock: MovedClock, owner_url: str, simulator_url: str
    ) -> None:
        self._services = services
        self._db = services.db
        self._clock = clock
        self._owner_url = owner_url
        self._simulator_url = simulator_url
        self._merchant_ids: dict[str, int] = {}

    async def prepare(self, history: HistoryFile) -> None:
        """Creates the merchants, and moves the timestamps of rows from an interrupted process."""
        await self._open_merchants(history.until)
        with self._clock.at(history.until - file.OPENED):
            for provider in PROVIDERS:
                await offices.book_opening_balance(self._db, provider)
        await moving.move(self._owner_url, self._clock.take_changed())
        unmoved = await moving.unmoved(self._db, list(self._merchant_ids.values()), history.until)
        self._clock.resume(unmoved)
        await moving.move(self._owner_url, unmoved)

    async def fill(self, folder: Path, history: HistoryFile) -> None:
        await self._services.watch.ensure_fresh()
        async with aiohttp.ClientSession() as session:
            control = SimulatorControl(session, self._simulator_url)
            runner = StoryRunner(
                *(self._services, self._clock, control, self._simulator_url, self._merchant_ids)
            )
            missing = await self._missing(plan.stories(history.until, history.share))
            with suppress(ProvidersChanged):
                # A newcomer buys in the demo shop, which uses the sandbox. Its history comes first,
                # so that a purchase is seldom posted before older transactions of its wallet.
                for is_sandbox in (True, False):
                    await self._run_days(
                        runner, [each for each in missing if each.is_sandbox is is_sandbox]
                    )
        applied = history.until - APPLIED
        applicant = await self._open(
            APPLICANT_NAME, APPLICANT_EMAIL, MerchantStatus.PENDING, applied
        )
        await moving.move(self._owner_url, self._clock.steps)
        await self._work_in_offices(history, applicant)
        file.complete(folder, history)
        log.info("history_complete")

    async def _work_in_offices(self, history: HistoryFile, applicant: int) -> None:
        """Performs the users' actions in the dashboard and the console, except transactions."""
        try:
            await offices.submit_dossier(self._services, applicant, APPLICANT_EMAIL)
            await offices.reconcile_days(self._services, PROVIDERS[0], history.until)
        except Refusal as problem:
            log.warning("history_without_offices", problem=str(problem))
        await moving.move_merchant(self._owner_url, applicant, history.until - APPLIED)
        await self._open_merchants(history.until)

    async def _open_merchants(self, until: datetime) -> None:
        for business in BUSINESSES:
            self._merchant_ids[business.email] = await self._open(
                business.name, business.email, MerchantStatus.APPROVED, until - file.OPENED
            )

    async def _open(self, name: str, email: str, status: MerchantStatus, moment: datetime) -> int:
        """Creates a merchant with this creation time, unless the merchant already exists."""
        merchant_id: int | None = await self._db.value(
            "SELECT min(id) FROM merchant WHERE email = $1", email
        )
        if merchant_id is None:
            with self._clock.at(moment):
                new = await merchants.create(
                    self._db, self._services.keyring, name=name, email=email, status=status
                )
            merchant_id = new.id
        await moving.move_merchant(self._owner_url, merchant_id, moment)
        return merchant_id

    async def _missing(self, stories: Sequence[Story]) -> list[Story]:
        records = await self._db.records(
            """
            SELECT ref_trx FROM payment WHERE merchant_id = ANY ($1)
             UNION SELECT ref_trx FROM payout WHERE merchant_id = ANY ($1)
             UNION SELECT file_name FROM payout_batch WHERE merchant_id = ANY ($1)""",
            list(self._merchant_ids.values()),
        )
        made = {record[0] for record in records}
        return [
            story
            for story in stories
            if story.reference not in made or not isinstance(story, CREATING)
        ]

    async def _run_days(self, runner: StoryRunner, missing: Sequence[Story]) -> None:
        for day, stories in groupby(missing, key=lambda each: each.at.astimezone(LAGOS).date()):
            await self._run_day(runner, list(stories))
            log.info("history_filled_in", day=day.isoformat())

    async def _check_providers(self) -> None:
        """Stops the history if a provider no longer uses the simulator."""
        await self._services.watch.ensure_fresh()
        for provider in PROVIDERS:
            base_url = self._services.rails.credentials(provider).value("base_url") or ""
            if not base_url.startswith(self._simulator_url):
                log.warning("history_ended", provider=provider)
                raise ProvidersChanged

    async def _run_day(self, runner: StoryRunner, stories: Sequence[Story]) -> None:
        for story in stories:
            await self._check_providers()
            try:
                await runner.run(story)
                if isinstance(story, PaymentStory) and not story.is_heard:
                    await self._deliver_again(runner, story)
            except (Refusal, TimeoutError) as problem:
                # Continue after a failed story, because no other story depends on it.
                log.warning("story_failed", reference=story.reference, problem=str(problem))
        await self._move()

    async def _deliver_again(self, runner: StoryRunner, story: PaymentStory) -> None:
        """Retries the notification's delivery at each scheduled time, up to the last attempt."""
        at = story.ends
        for seconds in RETRY_SECONDS:
            await self._move()
            at += timedelta(seconds=seconds)
            await runner.deliver_again(story, at)

    async def _move(self) -> None:
        """Moves the timestamps after the history's jobs have finished, or after a time limit."""
        with suppress(TimeoutError):
            await until(self._is_done, QUIET_SECONDS)
        await moving.move(self._owner_url, self._clock.take_changed())

    async def _is_done(self) -> bool:
        found: bool = await self._db.value(
            """
            SELECT NOT EXISTS (SELECT FROM job
             WHERE merchant_id = ANY ($1) AND split_part(subject, '-', 1) = ANY ($2)
               AND due_at <= now())""",
            *(list(self._merchant_ids.values()), list(self._clock.steps)),
        )
        return found
