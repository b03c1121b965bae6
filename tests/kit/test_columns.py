"""The column lists of SQL statements are derived from structs."""

import msgspec

from manilla.kit.database.rows import columns


class Example(msgspec.Struct):
    trx_id: str
    amount_minor: int
    note: str | None = None

    @property
    def amount(self) -> int:
        return self.amount_minor


def test_a_structs_fields_are_its_columns_in_order() -> None:
    assert columns(Example) == "trx_id, amount_minor, note"
