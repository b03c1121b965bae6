"""The banks of Nigeria, from `nigeria.csv`, with their codes and names."""

import csv
from importlib import resources

import msgspec


def with_code(name: str | None, code: str) -> str:
    """Returns a bank's display name, such as `Guaranty Trust Bank (058)`, or only the code."""
    return f"{name} ({code})" if name and name != code else code


class NigerianBank(msgspec.Struct, frozen=True):
    code: str  # unique bank code; nigeria.csv explains the codes
    nip_code: str  # code in the interbank system NIP; empty if the bank does not have one
    kind: str
    is_in_sandbox: bool
    name: str
    other_codes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    former_names: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return with_code(self.name, self.code)

    @property
    def codes(self) -> set[str]:
        return {self.code, *self.other_codes, *([self.nip_code] if self.nip_code else [])}

    @property
    def names(self) -> tuple[str, ...]:
        return self.name, *self.aliases, *self.former_names

    @property
    def words(self) -> str:
        """The names and codes by which people can find the bank in a list."""
        return "|".join((*self.names, *sorted(self.codes)))


def _read() -> list[NigerianBank]:
    text = resources.files(__package__).joinpath("nigeria.csv").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [_bank(row) for row in csv.DictReader(lines)]


def _bank(row: dict[str, str]) -> NigerianBank:
    return NigerianBank(
        code=row["code"],
        nip_code=row["nip_code"],
        kind=row["kind"],
        is_in_sandbox=row["sandbox"] == "yes",
        name=row["name"],
        other_codes=_list(row["other_codes"]),
        aliases=_list(row["aliases"]),
        former_names=_list(row["former_names"]),
    )


def _list(cell: str) -> tuple[str, ...]:
    return tuple(cell.split(";")) if cell else ()


BANKS = _read()
SANDBOX_BANKS = [bank for bank in BANKS if bank.is_in_sandbox]
BY_CODE = {bank.code: bank for bank in BANKS}
BY_ANY_CODE = {code: bank for bank in BANKS for code in bank.codes}
