"""Which hosts may receive notifications. The resolved IP address is checked."""

import asyncio
import re
import socket
import threading
from typing import Any

import pytest

from manilla.kit import outbound
from manilla.kit.http_client.connecting import ThreadedResolver
from manilla.kit.http_client.errors import AddressRefused, HttpError
from manilla.notify import delivery
from tests.notify.receiver import Receiver

NOT_PUBLIC = [
    *("127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
    *("100.64.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.1", "240.0.0.1", "192.0.2.1"),
    *("198.18.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "2001:db8::1"),
    *("::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::7f00:1", "64:ff9b::808:808"),
    *(
        "192.0.0.8",
        "192.88.99.1",
        "fec0::1",
        "3fff::1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2002:808:808::1",
        "2001:0:4136:e378::1",
    ),
]
PUBLIC = ["8.8.8.8", "1.1.1.1", "102.89.0.1", "2606:4700:4700::1111", "2c0f:f248::1"]


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_private_addresses_are_rejected(address: str) -> None:
    assert not outbound.is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert outbound.is_public(address)


async def _post(url: str, *, is_public_only: bool) -> int | None:
    async with delivery.open_client(is_public_only=is_public_only, connections=4) as client:
        return (await client.request("POST", url, body=b"{}", body_max=100)).status


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost"]
)
async def test_loopback_is_rejected_in_every_notation(receiver: Receiver, host: str) -> None:
    url = f"http://{host}:{receiver.port}/ipn"
    said = r"not a (public|canonical IPv4) address"
    with pytest.raises(HttpError, match=said) as refused:
        await _post(url, is_public_only=True)
    assert re.search(said, outbound.describe(refused.value))
    assert receiver.received == []


async def test_an_error_does_not_reveal_what_a_hostname_resolves_to() -> None:
    messages = set()
    for host in ("localhost", "10.1.2.3", "no-such-name.invalid"):
        with pytest.raises(HttpError) as refused:
            await _post(f"http://{host}/ipn", is_public_only=True)
        messages.add(outbound.describe(refused.value))
    assert messages == {outbound.NOT_REACHED}


async def test_loopback_is_allowed_in_development_mode(receiver: Receiver) -> None:
    assert await _post(receiver.url, is_public_only=False) == 200


async def test_a_name_that_resolves_to_loopback_later_is_rejected_at_connect(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host name can resolve to another IP address later, so the socket's address is checked."""
    answers = iter(["8.8.8.8", "127.0.0.1"])

    async def resolve(_resolver: Any, _host: str, port: int) -> list[Any]:
        return [(socket.AF_INET, (next(answers), port))]

    monkeypatch.setattr(ThreadedResolver, "resolve", resolve)
    made: list[str] = []
    real = outbound.is_public

    def looked_at(address: str) -> bool:
        made.append(address)
        # Reject this address, so that the test calls no external host.
        return False if address == "8.8.8.8" else real(address)

    monkeypatch.setattr(outbound, "is_public", looked_at)
    for _ in range(2):
        with pytest.raises(AddressRefused):
            await _post(f"http://shop.example:{receiver.port}/ipn", is_public_only=True)
    assert made == ["8.8.8.8", "127.0.0.1"]
    assert receiver.received == []


async def test_unresolvable_names_do_not_block_resolving_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name server that does not respond blocks a thread for longer than the call waits."""
    names, system = 40, socket.getaddrinfo
    asked, answer = threading.Semaphore(0), threading.Event()

    def resolve(host: Any, *about: Any, **more: Any) -> Any:
        if str(host).endswith(".hangs.example"):
            asked.release()
            answer.wait(30)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return system(host, *about, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    async with delivery.open_client(is_public_only=True, connections=names) as client:
        calls = [
            asyncio.create_task(
                client.request("GET", f"http://{number}.hangs.example/", body_max=100)
            )
            for number in range(names)
        ]
        try:
            async with asyncio.timeout(10):
                for _ in range(names):
                    while not asked.acquire(blocking=False):
                        await asyncio.sleep(0.05)
                assert await asyncio.get_running_loop().getaddrinfo("localhost", 80)
        finally:
            answer.set()
            await asyncio.gather(*calls, return_exceptions=True)
