"""Owners and receivers see their shares, invite and accept, and release held shares."""

import pytest

from manilla.payments.payment_links import store as link_store
from manilla.people.roles import Role
from manilla.splits import service, store
from tests.payments.payment_links import customers
from tests.splits.conftest import production, shop, simulator, splits
from tests.splits.steps import Splits, percent
from tests.support.client import Site
from tests.web.signed_in_user import SignedInUser, member

__all__ = ["production", "shop", "simulator", "splits"]

PAGE = "/production/shares"


async def user_of(splits: Splits, site: Site, merchant_id: int) -> SignedInUser:
    user = await member(splits.shop.services, site, merchant_id)
    await user.step_up(splits.shop.services)
    return user


async def text_of(user: SignedInUser, path: str) -> str:
    reply = await user.get(path)
    assert reply.status == 200, reply.body
    return reply.body.decode()


async def test_a_merchant_is_invited_accepts_and_gets_shares(splits: Splits, site: Site) -> None:
    stranger = await splits.stranger("Chidi Gas")
    owner = await user_of(splits, site, splits.owner)
    receiver = await user_of(splits, site, stranger)
    await owner.post(f"{PAGE}/invite", {"merchant": str(stranger)})
    assert "Accept" in await text_of(receiver, PAGE)
    await receiver.post(f"{PAGE}/partners/{splits.owner}", {"accepts": "on"})
    [partner] = await store.partners(splits.db, stranger)
    assert partner.status == "accepted"
    paid = await splits.pay({"receivers": [percent(stranger, 30)]})
    [share] = await splits.shares(paid)
    assert share.trx_id[-6:] in await text_of(receiver, PAGE)
    page = await text_of(receiver, f"{PAGE}/{share.trx_id}")
    assert "₦300.00" in page
    assert paid.started.info["ref_trx"] not in page
    assert (await owner.get(f"{PAGE}/{share.trx_id}")).status == 404


async def test_the_owner_ends_a_consent_and_cannot_accept_for_the_receiver(
    splits: Splits, site: Site
) -> None:
    stranger = await splits.stranger()
    owner = await user_of(splits, site, splits.owner)
    await owner.post(f"{PAGE}/invite", {"merchant": str(stranger)})
    await owner.post(f"{PAGE}/partners/{stranger}", {"accepts": "on", "is_owner": "on"})
    [partner] = await store.partners(splits.db, stranger)
    assert partner.status == "ended"


async def test_held_shares_are_released_on_the_payments_page(splits: Splits, site: Site) -> None:
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)], "hold": "release"})
    owner = await user_of(splits, site, splits.owner)
    path = f"/production/payments/{paid.started.trx_id}"
    assert "Release held shares" in await text_of(owner, path)
    await owner.post(f"{path}/shares/release", {})
    assert await splits.balance(receiver) == 300
    assert "Release held shares" not in await text_of(owner, path)


async def test_a_sub_account_is_created_on_the_page(splits: Splits, site: Site) -> None:
    owner = await user_of(splits, site, splits.owner)
    await owner.post(f"{PAGE}/sub-accounts", {"name": "Branch Yaba"})
    [made] = await store.sub_accounts(splits.db, splits.owner)
    assert f"SUB{made.merchant_id}" in await text_of(owner, PAGE)
    assert (await owner.post(f"{PAGE}/invite", {"merchant": "999999"})).status in (303, 404)


async def test_the_form_for_a_payment_link_offers_the_splits(splits: Splits, site: Site) -> None:
    receiver = await splits.receiver()
    owner = await user_of(splits, site, splits.owner)
    links = "/production/links"
    assert 'name="split"' not in await text_of(owner, f"{links}/new")
    rule = {"name": "Branches & agents", "receivers": [percent(receiver, 10)]}
    made = (await splits.shop.merchant.post("/api/v1/splits", rule)).json
    assert made["id"] in await text_of(owner, f"{links}/new")
    form = {"title": "Cloth", "amount": "500", "currency": "NGN", "split": made["id"]}
    created = await owner.post(links, form)
    assert created.status == 303, created.body
    path = created.location.removeprefix("/dashboard")
    assert "Branches &amp; agents" in await text_of(owner, path)
    link = await link_store.find(splits.db, path.rpartition("/")[2])
    await splits.complete(await customers.start(splits.shop, link))
    assert await splits.balance(receiver) == 50
    await service.answer(splits.db, receiver, splits.owner, accepts=False)
    assert (await owner.post(links, form)).status == 422
    assert (await owner.post(links, {**form, "split": "SPL1"})).status == 422


@pytest.mark.parametrize("role", [Role.VIEWER, Role.DEVELOPER])
async def test_others_than_owners_and_finance_only_see_shares(
    splits: Splits, site: Site, role: Role
) -> None:
    user = await member(splits.shop.services, site, splits.owner, role=role)
    assert "Invite receiver" not in await text_of(user, PAGE)
    assert (await user.post(f"{PAGE}/sub-accounts", {"name": "Branch"})).status == 403
