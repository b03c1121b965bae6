"""The private names that we use from libraries. A new library version may rename them.

`pyproject.toml` limits the versions of these libraries. Before you raise a limit, run this test and
the tests in `tests/kit` and `tests/pages` with the new version.
"""

import inspect
import re
from collections.abc import Iterable

import pytest
from asyncpg import Connection
from prometheus_client import Histogram, values
from prometheus_client.mmap_dict import MmapedDict
from uvicorn import Server
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

# uvicorn's protocol reads these attributes of a request, so `DirectCycle` must have them too.
CYCLE = (
    *("body", "disconnected", "keep_alive", "message_event", "more_body"),
    *("response_complete", "response_started"),
)


def assigned(owner: type) -> set[str]:
    """Returns the names of the attributes that a class's constructor assigns."""
    source = inspect.getsource(owner.__init__)  # type: ignore[misc]
    return set(re.findall(r"self\.(\w+)(?:: [^=\n]+)? =", source))


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (Connection, ("_cancel_current_command", "_transport")),
        (Histogram, ("_metric_init",)),
        (HttpToolsProtocol, ("_start_asgi_task", "on_response_complete", "send_400_response")),
        (MmapedDict, ("_init_value",)),
        (Server, ("_serve", "on_tick", "shutdown")),
        (httptools_impl, ("STATUS_LINE",)),
        (values, ("MmapedDict",)),
    ],
)
def test_a_library_has_the_private_names_that_we_use(owner: object, names: Iterable[str]) -> None:
    slots = getattr(owner, "__slots__", ())
    assert [name for name in names if not hasattr(owner, name) and name not in slots] == []


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (MmapedDict, ("_capacity", "_f", "_used")),
        (RequestResponseCycle, CYCLE),
        (
            HttpToolsProtocol,
            ("cycle", "expect_100_continue", "flow", "pipeline", "server_state", "tasks"),
        ),
    ],
)
def test_a_constructor_sets_the_attributes_that_we_use(owner: type, names: Iterable[str]) -> None:
    assert set(names) - assigned(owner) == set()


def test_a_histogram_has_its_sum_and_buckets() -> None:
    histogram = Histogram("test_private_names", "Only for this test.", registry=None)
    assert histogram._upper_bounds[-1] == float("inf")
    assert len(histogram._buckets) == len(histogram._upper_bounds)
    assert histogram._sum.get() == 0
