"""Users choose which emails they receive, except for security emails, which are always sent."""

import pytest

from manilla.mail import choices, outbox
from manilla.mail.choices import BadUnsubscribeLink
from manilla.mail.kinds import (
    ADMINISTRATORS,
    DEVELOPERS,
    FINANCE,
    OPERATIONS,
    OWNERS,
    RULES,
    Audience,
    MailKind,
)
from manilla.mail.letter import TEMPLATES
from manilla.people.roles import ConsoleRole, Permission, Role, permissions_of
from manilla.services import Services
from tests.mail.outbox_reader import letters_to, mails_to
from tests.mail.post_office import put_failed_payout
from tests.people.accounts import Accounts, Owner, new_email
from tests.support.client import Site
from tests.web.http_browser import HttpBrowser


def test_the_roles_of_each_audience_are_those_with_the_permission() -> None:
    expected = {
        OWNERS: Permission.MANAGE_TEAM,
        FINANCE: Permission.MOVE_MONEY,
        DEVELOPERS: Permission.CONFIGURE,
        ADMINISTRATORS: Permission.PLATFORM,
        OPERATIONS: Permission.PAYOUT_DESK,
    }
    for roles, permission in expected.items():
        having = {each for each in (*Role, *ConsoleRole) if permission in permissions_of(each)}
        assert having == roles, permission


def test_every_kind_has_rules_and_a_template() -> None:
    assert set(RULES) == set(MailKind)
    for kind, rule in RULES.items():
        assert (TEMPLATES / f"{kind}.jinja").exists()
        assert bool(rule.roles) == (rule.audience in (Audience.MERCHANT, Audience.CONSOLE))


async def _put_keys_rotated(services: Services, merchant_id: int) -> None:
    async with services.db.transaction() as connection:
        await outbox.put(
            connection,
            MailKind.KEYS_ROTATED,
            {"by": "Ada", "environment": "production"},
            path="/dashboard/production/credentials",
            merchant_id=merchant_id,
        )


async def test_a_link_in_the_email_unsubscribes_in_one_step(
    services: Services, site: Site, owner: Owner
) -> None:
    await put_failed_payout(services, owner.merchant_id)
    [letter] = await letters_to(services.db, services.letters, owner.email)
    url = letter.message["List-Unsubscribe"].strip("<>")
    path = url.removeprefix(services.base_url)
    async with HttpBrowser.of(site, "") as browser:
        opened = await browser.get(path)
        assert (opened.status, "A payout failed" in opened.text) == (200, True)
        await put_failed_payout(services, owner.merchant_id)
        # Opening the page does not change the email preferences.
        assert len(await mails_to(services.db, owner.email)) == 2
        done = await browser.post(path, {"List-Unsubscribe": "One-Click", "csrf": ""})
        assert (done.status, "You have unsubscribed" in done.text) == (200, True)
    await put_failed_payout(services, owner.merchant_id)
    await _put_keys_rotated(services, owner.merchant_id)
    kinds = [mail.kind for mail in await mails_to(services.db, owner.email)]
    assert kinds == ["payout_failed", "payout_failed", "keys_rotated"]


async def test_an_altered_link_unsubscribes_nobody(
    services: Services, site: Site, owner: Owner
) -> None:
    await put_failed_payout(services, owner.merchant_id)
    [letter] = await letters_to(services.db, services.letters, owner.email)
    token = letter.message["List-Unsubscribe"].strip("<>").rpartition("/")[2]
    for bad in ("", "x", token[:-1] + ("0" if token[-1] != "0" else "1"), "é" + token):
        with pytest.raises(BadUnsubscribeLink):
            choices.read_token(services.keyring, bad)
    async with HttpBrowser.of(site, "") as browser:
        reply = await browser.post(choices.UNSUBSCRIBE + "x" + token, {"csrf": ""})
    assert (reply.status, "incomplete" in reply.text) == (404, True)


async def test_a_security_email_has_no_link_to_unsubscribe(
    services: Services, owner: Owner
) -> None:
    await _put_keys_rotated(services, owner.merchant_id)
    [letter] = await letters_to(services.db, services.letters, owner.email)
    assert letter.message["List-Unsubscribe"] is None
    assert "cannot be switched off" in letter.text


async def test_a_choice_is_the_users_own_and_merchants_are_not_mixed(
    services: Services, accounts: Accounts
) -> None:
    mine, other = await accounts.owner(), await accounts.owner()
    kinds = [MailKind.PAYOUT_FAILED, MailKind.BULK_DONE]
    await choices.choose(services.db, mine.visitor.person_id, kinds, [MailKind.BULK_DONE])
    chosen = await choices.of_person(services.db, mine.visitor.person_id, kinds)
    assert chosen == {MailKind.BULK_DONE}
    for merchant_id in (mine.merchant_id, other.merchant_id):
        await put_failed_payout(services, merchant_id)
    assert await mails_to(services.db, mine.email) == []
    [mail] = await mails_to(services.db, other.email)
    assert mail.merchant_id == other.merchant_id


async def test_a_customer_unsubscribes_from_one_merchant(
    services: Services, accounts: Accounts
) -> None:
    mine, other, customer = await accounts.owner(), await accounts.owner(), new_email()
    facts = {
        "amount": "₦1,000.00",
        "description": "",
        "reference": "order-1",
        "trx_id": "TXN1",
        "at": "today",
        "support": "",
        "logo": "",
        "way": "",
        "way_label": "",
        "language": "en",
    }

    async def put(merchant_id: int) -> list[int]:
        async with services.db.transaction() as connection:
            return await outbox.put(
                connection,
                MailKind.RECEIPT,
                facts,
                path="/",
                address=customer,
                merchant_id=merchant_id,
            )

    await put(mine.merchant_id)
    [letter] = await letters_to(services.db, services.letters, customer)
    token = letter.message["List-Unsubscribe"].strip("<>").rpartition("/")[2]
    await choices.unsubscribe(services.db, services.keyring, token)
    assert await put(mine.merchant_id) == []
    assert len(await put(other.merchant_id)) == 1
