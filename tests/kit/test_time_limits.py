"""One struct contains every time limit that a slow machine can reach."""

import re
from pathlib import Path

import pytest

from manilla.kit import time_limits
from manilla.kit.jobs.runner import RENEW_SECONDS
from manilla.kit.time_limits import TimeLimits
from manilla.settings import BadConfiguration, Mode, apply_limits
from tests.support.limits import PATIENT, as_variables, limited

# These constants are polling intervals. When one has passed, no error is raised.
INTERVALS = {"POLL_SECONDS", "FLUSH_SECONDS", "NEXT_ADDRESS_SECONDS"}
LIMITED = re.compile(
    r"(?:asyncio\.timeout\(|wait_for\([^\n]*, |timeout=|wire\.limited\()([A-Z_]*SECONDS[A-Z_]*)"
)


def test_no_constant_is_used_as_a_time_limit(project: Path) -> None:
    used = {
        (file.name, name)
        for file in (project / "manilla").rglob("*.py")
        for name in LIMITED.findall(file.read_text())
        if name not in INTERVALS
    }
    assert not used


def test_a_process_takes_its_limits_from_a_variable_in_development_mode_only() -> None:
    with limited():
        apply_limits(as_variables(request_seconds=7), Mode.DEVELOPMENT)
        assert time_limits.current.request_seconds == 7
        assert time_limits.current.acquire_seconds == PATIENT.acquire_seconds
        apply_limits({"MANILLA_TIME_LIMITS": '{"acquire_seconds": 3}'}, Mode.DEVELOPMENT)
        assert time_limits.current == TimeLimits(acquire_seconds=3)
        apply_limits({"MANILLA_TIME_LIMITS": '{"acquire_seconds": 4}'}, Mode.PRODUCTION)
        apply_limits({}, Mode.DEVELOPMENT)
        assert time_limits.current == TimeLimits(acquire_seconds=3)


def test_sending_a_transfer_ends_before_the_workers_lease() -> None:
    """If the worker cannot renew its lease any more, the next worker may send the transfer."""
    limits = TimeLimits()
    assert limits.transfer_send_seconds + RENEW_SECONDS <= limits.lease_seconds


@pytest.mark.parametrize("text", ["{", "[]", '{"acquire_seconds": "long"}'])
def test_malformed_limits_are_rejected(text: str) -> None:
    with pytest.raises(BadConfiguration, match="MANILLA_TIME_LIMITS"):
        apply_limits({"MANILLA_TIME_LIMITS": text}, Mode.DEVELOPMENT)
