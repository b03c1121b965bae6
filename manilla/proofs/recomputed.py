"""The results of the independent program, as tables of an auditor's pack."""

import dataclasses

from manilla.proofs import verify
from manilla.proofs.tables import CheckedRule, ListedRows, PackSection, PackTable
from manilla.proofs.verify import Verification

_ROWS = f"{verify.POSTINGS};\n{verify.ENTRIES}"

# The checks of the independent program: the section, the rule, and the SQL that reads the rows.
VERIFIED = {
    "wallet": (
        PackSection.BALANCES,
        "Each wallet's balance is the sum of its entries.",
        verify.WALLETS,
    ),
    "history": (
        PackSection.BALANCES,
        "Each wallet entry has the balance after it, which is never below zero.",
        _ROWS,
    ),
    "environment": (PackSection.BALANCES, "No posting mixes environments or currencies.", _ROWS),
    "sum": (
        PackSection.BALANCES,
        "The entries of each posting and of all accounts sum to zero.",
        _ROWS,
    ),
    "orphans": (
        PackSection.COMPLETENESS,
        "Each entry belongs to a posting.",
        verify.ENTRY_COUNT,
    ),
    "tables": (
        PackSection.CHAIN,
        "The tables of the ledger are plain tables.",
        verify.REPLACED_TABLES,
    ),
    "chain": (
        PackSection.CHAIN,
        "The links of the chain are complete and follow each other.",
        verify.LINKS,
    ),
    "content": (
        PackSection.CHAIN,
        "The postings and entries of each link match its digest.",
        _ROWS,
    ),
    "archive": (
        PackSection.CHAIN,
        "The files of archived months are complete and unchanged. The rows that remain of archived "
        "postings equal the files.",
        verify.ARCHIVED,
    ),
    "carried": (
        PackSection.BALANCES,
        "The sums of archived entries were carried forward.",
        _ROWS,
    ),
    "anchor": (
        PackSection.CHAIN,
        "The chain contains the links that were anchored before.",
        verify.LINKS,
    ),
}


def tables(verified: Verification) -> list[PackTable]:
    return [*_checks(verified), _balances(verified), _links(verified)]


def _checks(verified: Verification) -> list[CheckedRule]:
    return [
        CheckedRule(
            section,
            f"recomputed_{name}",
            promise,
            [dataclasses.asdict(each) for each in verified.findings if each.check == name],
            sql,
            count=verified.counts[name],
        )
        for name, (section, promise, sql) in VERIFIED.items()
    ]


def _balances(verified: Verification) -> ListedRows:
    at_date = verified.balances_at_date
    rows = [
        {
            **dict(zip(("merchant_id", "environment", "currency", "account"), key, strict=True)),
            "balance_minor": minor,
            **({} if at_date is None else {"balance_at_date_minor": at_date.get(key, 0)}),
        }
        for key, minor in sorted(verified.balances.items())
    ]
    title = "Every account's balance, recomputed from the ledger entries"
    return ListedRows(PackSection.BALANCES, "balances", title, rows, _ROWS)


def _links(verified: Verification) -> ListedRows:
    title = "The last link of each day. The link's hash covers all earlier postings"
    return ListedRows(PackSection.CHAIN, "sealed_days", title, verified.sealed_days, verify.LINKS)
