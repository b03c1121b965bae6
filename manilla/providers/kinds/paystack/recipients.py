"""Creates the recipients that Paystack requires before a transfer.

Paystack returns the same recipient for the same account, so creating a recipient again is harmless.
"""

from typing import Any

from manilla.providers import reading
from manilla.providers.kinds.paystack import answers
from manilla.providers.port import Answer, Done, TransferOrder
from manilla.providers.reading import Malformed
from manilla.providers.wire import Wire

KEPT_MAX = 10_000


class Recipients:
    def __init__(self, pay_out: Wire) -> None:
        self._pay_out = pay_out
        # Maps a bank code and account number to a recipient code.
        self._codes: dict[tuple[str, str], str] = {}

    def is_known(self, order: TransferOrder) -> bool:
        return _key(order) in self._codes

    def forget(self, order: TransferOrder) -> None:
        self._codes.pop(_key(order), None)

    async def code_of(self, order: TransferOrder) -> Answer[str]:
        code = self._codes.get(_key(order))
        if code is not None:
            return Done(code)
        answer = await self._create(order)
        if isinstance(answer, Done):
            if len(self._codes) >= KEPT_MAX:
                del self._codes[next(iter(self._codes))]
            self._codes[_key(order)] = answer.value
        return answer

    async def _create(self, order: TransferOrder) -> Answer[str]:
        body = {
            "type": "nuban",
            "name": order.account_name or order.account_number,  # Paystack requires a name
            "account_number": order.account_number,
            "bank_code": order.bank_code,
            "currency": order.amount.currency,
        }
        return await self._pay_out.post(
            "/transferrecipient", body, lambda data: _code(data, order), answers.decide_lookup
        )


def _key(order: TransferOrder) -> tuple[str, str]:
    return order.bank_code, order.account_number


def _code(data: Any, order: TransferOrder) -> str:
    """Parses the recipient code. The recipient must have the account that we requested."""
    details = reading.field(data, "details")
    asked = (order.account_number, order.bank_code)
    if (reading.text(details, "account_number"), reading.text(details, "bank_code")) != asked:
        raise Malformed("the recipient has another account")
    return reading.text(data, "recipient_code")
