"""The tables of an auditor's pack: rules with their violations, and lists of rows."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

Rows = list[dict[str, Any]]


class PackSection(StrEnum):
    BALANCES = "Balances"
    COMPLETENESS = "Completeness"
    RECONCILIATION = "Reconciliation"
    CHAIN = "Hash chain"
    TRANSFERS = "Transfers"
    PEOPLE = "People and approvals"
    COVER = "Cover"
    SCHEMA = "Version and schema"


class PackTable(msgspec.Struct, frozen=True):
    """Rows of the pack, with the SQL that selects them."""

    section: PackSection
    name: str
    description: str  # the rule, or what the rows are
    rows: Rows
    sql: str


class CheckedRule(PackTable, frozen=True, kw_only=True):
    """A rule with its violations, up to a maximum number. The rule is met if there are none."""

    count: int


class ListedRows(PackTable, frozen=True):
    """Rows that are no findings."""


def check_of(
    section: PackSection, name: str, promise: str, findings: Iterable[Mapping[str, Any]], sql: str
) -> CheckedRule:
    rows = [dict(each) for each in findings]
    return CheckedRule(section, name, promise, rows, sql, count=len(rows))
