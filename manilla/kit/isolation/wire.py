"""The messages between a process and its isolated calls, encoded as MessagePack."""

import msgspec


class Task(msgspec.Struct, frozen=True):
    """What a call does, and its limits. A call that exceeds one of them is killed."""

    function: str  # `package.module:name`
    seconds: float
    cpu_seconds: float = 10
    memory_bytes: int = 1024**3  # address space, including the libraries that all calls share


class Returned(msgspec.Struct, frozen=True, tag="returned"):
    value: msgspec.Raw


class Rejected(msgspec.Struct, frozen=True, tag="rejected"):
    """The function raised a `Refusal` with this text."""

    text: str


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The function raised another exception, which is a bug."""

    traceback: str


Outcome = Returned | Rejected | Failed
TASK_BYTES_MAX = 1024
