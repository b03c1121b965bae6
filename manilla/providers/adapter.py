"""The base class of adapters."""

from collections.abc import Mapping
from datetime import datetime

from manilla.providers.kind import AdapterContext
from manilla.providers.port import NO_STATEMENTS, Answer, StatementPage
from manilla.providers.replies import Envelope, read_flag


class BaseAdapter:
    """An adapter for a provider that accepts our references unchanged and has no statements."""

    def __init__(
        self, context: AdapterContext, headers: Mapping[str, str], envelope: Envelope = read_flag
    ) -> None:
        self.provider = context.credentials.provider
        self._pay_in, self._pay_out = context.wires(headers, envelope)

    async def statement(
        self, since: datetime, until: datetime, currency: str, start: str | None = None
    ) -> Answer[StatementPage]:
        return NO_STATEMENTS

    def transfer_reference(self, trx_id: str) -> str:
        return trx_id
