"""A check's report: questions, expected and actual results, and the API calls without secrets."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from manilla.kit import strict_json
from manilla.kit.clock import iso
from manilla.providers.checks.check import CheckResult


class ShownCall(msgspec.Struct, frozen=True):
    """An API call without credentials and personal data."""

    method: str
    path: str
    query: Any
    request: Any
    status: int | None
    response: Any
    problem: str

    def lines(self) -> Iterator[str]:
        status = f"HTTP {self.status}" if self.status is not None else "no response"
        problem = f" ({self.problem})" if self.problem and self.problem != status else ""
        yield f"  {self.method} {self.path}: {status}{problem}"
        bodies = {"query": self.query, "request": self.request, "response": self.response}
        for name, body in bodies.items():
            if body is not None:
                yield f"    {name:<8}  {strict_json.encode(body).decode()}"


class CheckedQuestion(msgspec.Struct, frozen=True):
    name: str
    question: str
    expectation: str
    result: CheckResult
    found: str
    calls: list[ShownCall]

    def lines(self) -> Iterator[str]:
        yield f"{self.result.upper()}: {self.name}"
        yield f"  question  {self.question}"
        yield f"  expected  {self.expectation}"
        yield f"  found     {self.found}"
        for call in self.calls:
            yield from call.lines()


class CheckReport(msgspec.Struct, frozen=True):
    account: str
    kind: str
    mode: str  # `test` or `live`
    at: datetime
    version: str
    checks: list[CheckedQuestion]

    def named(self, result: CheckResult) -> list[str]:
        return [each.name for each in self.checks if each.result is result]

    @property
    def is_ok(self) -> bool:
        return not self.named(CheckResult.DIFFERS) and bool(self.named(CheckResult.MATCHES))

    def lines(self) -> Iterator[str]:
        yield f"Check of {self.account} ({self.kind}), {self.mode} account"
        yield f"{iso(self.at)}, Manilla {self.version}"
        yield ""
        for result in CheckResult:
            names = self.named(result)
            yield f"{result:<12} {len(names):>3}  {', '.join(names)}".rstrip()
        for each in self.checks:
            yield ""
            yield from each.lines()

    def document(self) -> dict[str, Any]:
        """Returns the report as JSON-compatible data. Numbers keep their exact value."""
        checks = [
            {
                **msgspec.structs.asdict(each),
                "calls": [msgspec.structs.asdict(c) for c in each.calls],
            }
            for each in self.checks
        ]
        return {**msgspec.structs.asdict(self), "ok": self.is_ok, "checks": checks}
