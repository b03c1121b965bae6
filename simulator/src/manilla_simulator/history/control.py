"""Controls the simulated customers and banks through the simulator's control API."""

from typing import Any

import aiohttp

from manilla_simulator.history.patience import until


class SimulatorControl:
    def __init__(self, session: aiohttp.ClientSession, simulator_url: str) -> None:
        self._session = session
        self._root = f"{simulator_url}/control/api"

    async def pay(self, provider: str, reference: str, **command: str) -> None:
        """Pays a charge as the customer would, or makes the payment fail."""
        assert await self._post(f"{provider}/charges/{reference}/pay", command)

    async def expire(self, provider: str, reference: str) -> None:
        assert await self._post(f"{provider}/charges/{reference}/expire", {})

    async def settle(self, provider: str, reference: str, status: str) -> bool:
        """Settles a transfer. Returns False if the provider has not received the transfer yet."""
        return await self._post(f"{provider}/transfers/{reference}/settle", {"status": status})

    async def settle_when_sent(self, provider: str, reference: str, status: str) -> None:
        await until(lambda: self.settle(provider, reference, status))

    async def _post(self, path: str, command: dict[str, Any]) -> bool:
        async with self._session.post(f"{self._root}/{path}", json=command) as response:
            return response.status == 200
