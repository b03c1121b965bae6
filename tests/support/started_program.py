"""A program that runs beside the tests. If it has ended by itself, its log tells the reason."""

import subprocess
from pathlib import Path

import msgspec

LINES_MAX = 20


class ProgramEnded(Exception):
    """A program that others wait for has ended."""


class StartedProgram(msgspec.Struct, frozen=True):
    name: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def check(self) -> None:
        """Raises an error with the end of the program's log if the program has ended.

        Whoever waits for the program calls this method each time, because the program's response
        would never come.
        """
        status = self.process.poll()
        if status is not None:
            raise ProgramEnded(
                f"{self.name} has ended with status {status}. Its log {self.log} ends with:\n"
                + self.last_lines()
            )

    def last_lines(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LINES_MAX:])
