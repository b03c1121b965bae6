"""`manilla prove`: writes a pack of files with which an auditor verifies the ledger."""

import asyncio
import csv
import os
import re
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import asyncpg
import typer

from manilla.audit.audit import SavedHead
from manilla.cli.audit import read_kept
from manilla.cli.instance import Data, locate
from manilla.cli.options import read_day
from manilla.cli.output import Json, Output, csv_cell, plain
from manilla.kit import strict_json
from manilla.kit.database.reader import StandbyBehind, StandbyOfAnother
from manilla.kit.errors import Refusal, Unavailable
from manilla.proofs import pack
from manilla.proofs.pack import Pack, PackOptions
from manilla.proofs.tables import PackSection, PackTable
from manilla.proofs.verify import Seal
from manilla.sql import migrate

# A standby that is behind, away or no longer a standby, or that cancels a statement to replay WAL.
STANDBY_NOT_USABLE = (
    *(StandbyBehind, StandbyOfAnother),
    *(Unavailable, asyncpg.SerializationError),
)
ANCHOR = re.compile(r"[0-9]{1,18}:[0-9a-f]{64}")


class NotProved(Refusal):
    message = "The pack cannot be written."


def _read_anchor(text: str) -> str:
    if ANCHOR.fullmatch(text) is None:
        raise typer.BadParameter(f"{text!r} is not NUMBER:HASH.")
    return text


def prove(
    out: Annotated[Path, typer.Option("--out", help="A new or empty folder for the pack.")],
    day: Annotated[
        date | None,
        typer.Option("--date", metavar="DAY", parser=read_day, help="The last day of the pack."),
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            "--expect",
            parser=_read_anchor,
            metavar="HEAD",
            help="The chain_head of an earlier pack.",
        ),
    ] = None,
    audit_kept: Annotated[
        SavedHead | None,
        typer.Option(
            "--audit-kept",
            parser=read_kept,
            metavar="ID:HASH",
            help="The audit_head of an earlier pack.",
        ),
    ] = None,
    seal: Annotated[
        Path | None,
        typer.Option("--seal", help="seal.json of an earlier pack: verify only newer postings."),
    ] = None,
    term_days: Annotated[
        int, typer.Option("--term-days", min=0, help="The providers' settlement term in days.")
    ] = 3,
    archive: Annotated[
        Path | None,
        typer.Option(
            "--archive", help="The folder with archived months.  [default: $MANILLA_ARCHIVE_FOLDER]"
        ),
    ] = None,
    database_url: Annotated[
        str | None,
        typer.Option("--database-url", help="Connect as a database user that can only read."),
    ] = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Write a pack of files for an auditor. Exits with 1 if a check finds a problem.

    The command only reads, in one snapshot of the database. If MANILLA_DATABASE_READ_URL is set,
    the command reads from the standby, after the standby has replayed all confirmed commits.
    """
    is_development, standby_url = False, None
    if database_url is None:
        instance = locate(data)
        database_url, is_development = instance.database_url, instance.is_development
        standby_url = instance.read_url
    options = PackOptions(
        day=day,
        expected=tuple(expect or ()),
        audit_head=audit_kept,
        seal=None if seal is None else _read_seal(seal),
        archive=archive or _archive_folder(),
        term_days=term_days,
        is_development=is_development,
    )
    if options.day is not None and options.seal is not None:
        raise NotProved("A seal does not have the balances at a date. Use --date without --seal.")
    _prepare(out)
    collected = asyncio.run(_collect(database_url, standby_url, options))
    _write(out, collected)
    Output(as_json).print_fields(
        {
            "ok": collected.is_sound,
            "checks": len(collected.checks),
            "broken": [check.name for check in collected.checks if check.count],
            "chain_head": collected.facts["chain_head"],
            "audit_head": collected.facts["audit_head"],
            "report": str(out / "report.md"),
        }
    )
    if not collected.is_sound:
        raise typer.Exit(1)


async def _collect(url: str, standby_url: str | None, options: PackOptions) -> Pack:
    await migrate.check_ready(url)
    try:
        if standby_url is not None:
            try:
                return await pack.collect(url, options, standby_url=standby_url)
            except STANDBY_NOT_USABLE as error:
                warning = f"manilla: the primary is read, because of the standby: {error}"
                typer.echo(warning, err=True)
        return await pack.collect(url, options)
    except asyncpg.InsufficientPrivilegeError as error:
        raise NotProved(f"{error}. Use a role with GRANT pg_read_all_data.") from error


def _archive_folder() -> Path | None:
    folder = os.environ.get("MANILLA_ARCHIVE_FOLDER")
    return Path(folder) if folder else None


def _read_seal(file: Path) -> Seal:
    try:
        return Seal.read(file.read_text())
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise NotProved(f"{file} is not the seal of a pack: {error}.") from error


def _prepare(out: Path) -> None:
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_empty = not any(out.iterdir())
    except OSError as error:
        raise NotProved(f"{out} cannot be used: {error.strerror}.") from error
    if not is_empty:
        raise NotProved(f"{out} is not empty. Choose a new folder for each pack.")


def _write(out: Path, collected: Pack) -> None:
    (out / "sql").mkdir()
    for each in collected.tables:
        (out / "sql" / f"{each.name}.sql").write_text(f"{each.sql.strip()};\n")
        if each.rows:
            _write_csv(out / f"{each.name}.csv", each.rows)
    (out / "verify.py").write_text(pack.PROGRAM.read_text())
    if collected.is_sound:
        (out / "seal.json").write_text(collected.seal)
    (out / "report.json").write_bytes(strict_json.encode(_as_json(collected)))
    (out / "report.md").write_text("\n".join(_report(collected)))


def _write_csv(file: Path, rows: Sequence[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with file.open("w", newline="") as target:
        writer = csv.DictWriter(target, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows)


def _as_json(collected: Pack) -> Any:
    return plain(
        {
            "ok": collected.is_sound,
            **collected.facts,
            "checks": [
                {
                    "section": check.section,
                    "name": check.name,
                    "promise": check.description,
                    "count": check.count,
                }
                for check in collected.checks
            ],
            "lists": {listed.name: len(listed.rows) for listed in collected.lists},
        }
    )


def _report(collected: Pack) -> Iterator[str]:
    broken = [check for check in collected.checks if check.count]
    yield "# Proof of the ledger"
    yield ""
    yield (
        f"All {len(collected.checks)} checks passed."
        if not broken
        else f"**{len(broken)} of {len(collected.checks)} checks found problems.**"
    )
    yield ""
    yield "Keep the values of `chain_head` and `audit_head` outside of this installation."
    if not (collected.facts["expected"] and collected.facts["expected_audit_head"]):
        yield (
            "**This run cannot detect a chain that was truncated or recreated, because it does not "
            "have the heads of an earlier pack (`--expect`, `--audit-kept`).**"
        )
    yield "Run `python verify.py DATABASE_URL` to recompute balances and chain without Manilla."
    yield ""
    yield "| | |"
    yield "|---|---|"
    for name, value in collected.facts.items():
        yield f"| {name} | {_cell(value)} |"
    for section in PackSection:
        yield from _section(collected, section)


def _section(collected: Pack, section: PackSection) -> Iterator[str]:
    yield f"\n## {section}\n"
    checks = [check for check in collected.checks if check.section is section]
    if checks:
        yield "| Result | Findings | Rule | File |"
        yield "|---|---|---|---|"
    for check in checks:
        result = "WRONG" if check.count else "ok"
        yield f"| {result} | {check.count} | {check.description} | {_file(check)} |"
    for listed in collected.lists:
        if listed.section is section:
            yield f"\n{listed.description}: {len(listed.rows)} rows. {_file(listed)}"


def _file(written: PackTable) -> str:
    return f"`{written.name}.csv`" if written.rows else ""


def _cell(value: Any) -> str:
    return strict_json.encode(plain(value)).decode().replace("|", "\\|")
