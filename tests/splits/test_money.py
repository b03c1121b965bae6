"""Who has which money after a payment, a release, a refund and a dispute."""

from tests.splits.steps import Splits, fixed, percent


async def test_receivers_are_credited_together_with_the_owner(splits: Splits) -> None:
    first, second = await splits.receiver(), await splits.sub_account()
    paid = await splits.pay({"receivers": [percent(first, 30), fixed(second, 50)]})
    assert paid.started.info["split"]["shares"] == [
        {"receiver": "owner", "amount": 650.00},
        {"receiver": str(first), "amount": 300.00},
        {"receiver": second, "amount": 50.00},
    ]
    found = [await splits.balance(each) for each in (None, first, second)]
    assert found == [650, 300, 50]
