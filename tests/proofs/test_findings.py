"""The pack reports what is unexplained, uncovered or decided by one person alone."""

from datetime import timedelta

import pytest

from manilla.kit.database.connections import Database
from manilla.ledger import invariants
from manilla.platform import settings as settings_module
from manilla.platform.settings import PlatformSettings
from manilla.proofs import chain, checks, pack, tables
from manilla.proofs.pack import Pack, PackOptions
from manilla.settings import Settings
from tests.proofs.ledger_story import PROVIDER, LedgerStory
from tests.reconciliation.ledger_samples import Account
from tests.support.rolled_back import rolled_back


@pytest.fixture(autouse=True)
async def _is_covered(story: LedgerStory) -> None:
    await chain.extend(story.db)
    await story.report_balance()


async def _collected(settings: Settings) -> Pack:
    return await pack.collect(settings.database_url, PackOptions())


def _broken(found: Pack) -> list[str]:
    return [check.name for check in found.checks if check.count]


def _rows(found: Pack, name: str) -> tables.Rows:
    [table] = [each for each in found.tables if each.name == name]
    return table.rows


async def test_wallets_that_providers_do_not_cover(settings: Settings, story: LedgerStory) -> None:
    await story.report_balance(missing_minor=10_000_000)
    found = await _collected(settings)
    assert _broken(found) == ["wallets_are_covered_by_providers"]
    [row] = _rows(found, "wallets_are_covered_by_providers")
    assert row["wallets_minor"] == await story.db.number(
        "SELECT sum(balance_minor) FROM wallet WHERE environment = 'production'"
    )


async def test_a_balance_that_was_reported_too_long_ago(
    settings: Settings, owner: Database, story: LedgerStory
) -> None:
    await owner.execute(
        "UPDATE reported_balance SET reported_at = reported_at - $1::interval", timedelta(days=4)
    )
    assert _broken(await _collected(settings)) == ["reported_balances_are_within_the_term"]


async def test_transfers_with_unknown_outcome_are_listed(
    settings: Settings, story: LedgerStory
) -> None:
    trx_id = await story.send()
    await chain.extend(story.db)
    found = await _collected(settings)
    assert _broken(found) == []
    [row] = _rows(found, "transfers_with_unknown_outcome")
    assert (row["trx_id"], row["provider"], row["has_open_case"]) == (trx_id, PROVIDER, False)
    await story.payer.settle("a", trx_id, "success")
    await story.payer.until(trx_id, "completed")


async def test_two_transfers_with_one_reference(
    settings: Settings, owner: Database, story: LedgerStory
) -> None:
    first, second = [await story.pay_out("completed") for _ in range(2)]
    await chain.extend(story.db)
    await owner.execute("UPDATE payout SET sent_reference = $1 WHERE trx_id = $2", first, second)
    found = await _collected(settings)
    assert _broken(found) == ["transfer_references_are_unique"]
    assert _rows(found, "transfer_references_are_unique") == [
        {
            "reference": first,
            "transfers": 2,
            "sent": [f"{PROVIDER}:{each}" for each in sorted((first, second))],
        }
    ]
    await owner.execute("UPDATE payout SET sent_reference = NULL WHERE trx_id = $1", second)


async def test_a_request_that_its_author_approved(
    settings: Settings, owner: Database, story: LedgerStory
) -> None:
    await owner.execute(
        """
        INSERT INTO approval (kind, subject, detail, reason, status, asked_kind, asked_id,
                              asked_name, asked_realm, decided_kind, decided_id, decided_name,
                              decided_realm, decided_at)
        VALUES ('setting', 'setting:x', '{}', 'A test', 'approved', 'person', 1, 'Ada', 'console',
                'person', 1, 'Ada', 'console', now())"""
    )
    assert _broken(await _collected(settings)) == [
        "approvals_were_given_by_a_second_person",
        "approvals_are_in_the_audit_log",
    ]
    await owner.execute("DELETE FROM approval")


@pytest.fixture
def account(db: Database, owner: Database) -> Account:
    return Account(db, owner)


async def test_an_unexplained_item_is_reported_with_its_age(
    settings: Settings, account: Account, story: LedgerStory
) -> None:
    reference = await account.post(100_000)
    await account.imports(
        account.line(100_000, reference=reference), account.line(-2_500, line_id="withheld")
    )
    await chain.extend(story.db)
    found = await _collected(settings)
    assert "unmatched_items_are_younger_than_a_day" in _broken(found)
    assert "recomputed_content" not in _broken(found)
    [row] = _rows(found, "unmatched_items_are_younger_than_a_day")
    assert (row["reference"], row["finding"]) == ("withheld", "only on the statement")
    assert row["difference"].minor == -2_500
    assert row["age_days"] in (2, 3)
    days = [row for row in _rows(found, "days") if row["provider"] == account.name]
    assert [row["result"] for row in days].count("1 unmatched") == 1


async def test_development_mode_has_no_providers_balances_to_check(settings: Settings) -> None:
    found = await pack.collect(settings.database_url, PackOptions(is_development=True))
    names = {check.name for check in found.checks}
    assert "suspense_is_within_the_term" in names
    assert "wallets_are_covered_by_providers" not in names
    assert "reported_balances_are_within_the_term" not in names
    assert found.facts["provider_balances_are_checked"] is False


CELL = "INSERT INTO cell (name, base_url, first_merchant, last_merchant)"
ANOTHER_CELL = f"{CELL} VALUES ('b', 'https://b.example', 1000000, 2000000)"
FENCE = f"""
    {ANOTHER_CELL};
    INSERT INTO merchant_fence (merchant_id, cell, state)
    SELECT merchant_id, 'b', '{{state}}' FROM posting ORDER BY id LIMIT 1"""
EPOCH = "ALTER TABLE destination_epoch DISABLE TRIGGER USER"
DELETED = """
    INSERT INTO deleted_notifications (merchant_id, until)
    SELECT merchant_id, now() - interval '{age}' FROM posting ORDER BY id LIMIT 1"""


@pytest.mark.parametrize(
    ("rule", "sql"),
    [
        ("notifications_were_kept_for_90_days", DELETED.format(age="0")),
        ("notifications_were_kept_for_90_days", DELETED.format(age="89 days")),
        ("notifications_were_kept_for_90_days", DELETED.format(age="-1000 years")),
        (
            "payouts_have_digests_since_the_upgrade",
            f"{EPOCH}; UPDATE destination_epoch SET since = now() + interval '1 year'",
        ),
        (
            "payouts_have_digests_since_the_upgrade",
            f"""{EPOCH}; UPDATE destination_epoch SET since = (
                    SELECT max(linked_at) + interval '21 minutes' FROM posting_chain)""",
        ),
        ("payouts_have_digests_since_the_upgrade", f"{EPOCH}; DELETE FROM destination_epoch"),
        ("merchants_elsewhere_have_moved", FENCE.format(state="left")),
        ("merchants_elsewhere_have_moved", FENCE.format(state="partial")),
        ("merchants_elsewhere_have_moved", FENCE.format(state="arriving")),
    ],
)
async def test_a_row_that_would_excuse_a_finding_is_found(
    owner: Database, story: LedgerStory, rule: str, sql: str
) -> None:
    async with rolled_back(owner, sql) as connection:
        found = [await invariants.find(connection, each) for each in checks.EXCUSES]
        assert [finding.name for finding in found if finding.count] == [rule]


async def test_rows_that_excuse_no_finding(owner: Database, story: LedgerStory) -> None:
    moved = """
        INSERT INTO audit (id, at, actor_kind, actor_name, action, subject, merchant_id, detail,
                           previous_hash, hash)
        SELECT 999999, now(), 'system', 'x', 'cell.move.depart', 'x', merchant_id, '{}', '', ''
          FROM merchant_fence"""
    sql = f"{DELETED.format(age='91 days')}; {FENCE.format(state='left')}; {moved}"
    async with rolled_back(owner, sql) as connection:
        found = [await invariants.find(connection, each) for each in checks.EXCUSES]
        assert [finding.name for finding in found if finding.count] == []


@pytest.mark.parametrize(
    "sql",
    [
        # The cell from which the merchant has arrived, or the failed primary, had a faster clock.
        DELETED.format(age="89 days 23:51:00"),
        f"{EPOCH}; UPDATE destination_epoch SET since = now() + interval '19 minutes'",
        # The worker, which links the postings, has a slower clock.
        f"""{EPOCH}; UPDATE destination_epoch SET since = (
                SELECT min(linked_at) + interval '19 minutes' FROM posting_chain)""",
    ],
)
async def test_clocks_that_differ_by_minutes_are_no_finding(
    owner: Database, story: LedgerStory, sql: str
) -> None:
    async with rolled_back(owner, sql) as connection:
        found = [await invariants.find(connection, each) for each in checks.EXCUSES]
        assert [finding.name for finding in found if finding.count] == []


async def test_settings_that_were_changed_without_an_audit_entry(
    owner: Database, story: LedgerStory
) -> None:
    await settings_module.change(story.db, "settlement_hour", "7")
    for change in (
        "UPDATE setting SET value = '8' WHERE key = 'settlement_hour'",
        "DELETE FROM setting WHERE key = 'settlement_hour'",
        "INSERT INTO setting (key, value) VALUES ('rate_limit_per_minute', '1000000')",
    ):
        async with rolled_back(owner, change) as connection:
            found = [await invariants.find(connection, rule) for rule in checks.DECISIONS]
            broken = [each.name for each in found if each.count]
            assert broken == ["settings_are_in_the_audit_log"], change
    default = settings_module.render(PlatformSettings().settlement_hour)
    await settings_module.change(story.db, "settlement_hour", default)
    async with rolled_back(owner, "SELECT") as connection:
        found = [await invariants.find(connection, rule) for rule in checks.DECISIONS]
        assert [each.name for each in found if each.count] == []
