"""A shop that uses the WooCommerce plugin's core, and Manilla beside it."""

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from manilla_client import ShopConnection

from manilla.kit.environment import Environment
from manilla.ledger.scope import Tenant
from manilla.notify import shops, signing
from manilla.refunds import initiate
from manilla.services import Services
from tests.client_library.php import send, serving
from tests.payments import steps
from tests.support.client import Merchant
from tests.support.provider_simulator import ProviderSimulator

PLUGIN = Path(__file__).parents[2] / "plugins" / "woocommerce"
PROGRAM = PLUGIN / "tests" / "shop.php"


class WooShop:
    def __init__(
        self, url: str, folder: Path, secret: str, merchant: Merchant, simulator: ProviderSimulator
    ) -> None:
        self.url, self.folder, self.merchant = url, folder, merchant
        self.simulator, self.services = simulator, simulator.services
        self._key = base64.b64decode(secret.removeprefix("whsec_"))

    async def ask(self, do: str, order: int = 0, **asked: Any) -> Any:
        """Asks the shop. Returns its answer, a problem's word in a set, or None if it has died."""
        body = json.dumps({"do": do, "order": order, **asked}).encode()
        status, answered = await asyncio.to_thread(send, self.url, body)
        if answered == b"died":
            return None
        assert status == 200, answered
        given = json.loads(answered)
        if "error" in given:
            assert asked.get("fault"), given
            return None
        return {given["problem"]} if "problem" in given else given["ok"]

    async def order(self, number: int, total: str = "1500.50") -> int:
        await self.ask("create", number, total=total)
        return number

    async def pay(self, order: int, **asked: Any) -> Any:
        return await self.ask("pay", order, **asked)

    async def show(self) -> dict[str, Any]:
        shown: dict[str, Any] = await self.ask("show")
        return shown

    async def shown(self, order: int) -> dict[str, Any]:
        [found] = [each for each in (await self.show())["orders"] if each["id"] == order]
        return dict(found)

    async def noted(self, order: int) -> list[str]:
        return [each["note"] for each in (await self.show())["notes"] if each["order_id"] == order]

    async def skip(self, seconds: int) -> None:
        clock = self.folder / "clock"
        before = int(clock.read_text()) if clock.exists() else 0
        clock.write_text(str(before + seconds))

    # What happens in Manilla.

    async def every(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.merchant.get(f"{path}?limit=100")).json["data"]
        return found

    async def complete(self, trx_id: str) -> None:
        await steps.complete(self.services, self.merchant, trx_id)

    async def expire(self, trx_id: str) -> None:
        await steps.expire(self.services, self.merchant, trx_id)

    async def refund_in_dashboard(self, trx_id: str, amount: str | None = None) -> str:
        refund = await initiate.start(self.services.db, trx_id, amount, "In the dashboard")
        return refund.trx_id

    async def end_refunds(self) -> None:
        await self.simulator.run_jobs()

    async def events(self) -> list[dict[str, Any]]:
        return await self.every("/api/v1/events")

    async def notify(self, event: dict[str, Any], **asked: Any) -> Any:
        body, headers = self.signed(event)
        return await self.ask("event", body=body.decode(), headers=headers, **asked)

    def signed(self, event: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
        """Returns the event as Manilla sends it to the shop's endpoint."""
        body = b'{"type":"%s",' % event["type"].encode() + event["body"].encode()[1:]
        headers = signing.endpoint_headers(
            [self._key],
            notification_id=event["id"],
            environment="sandbox",
            body=body,
            now=int(time.time()),
        )
        return body, headers


@contextlib.asynccontextmanager
async def running_shop(
    services: Services, simulator: ProviderSimulator, merchant: Merchant, folder: Path
) -> AsyncIterator[WooShop]:
    tenant = Tenant(merchant.new.id, Environment.SANDBOX)
    url = f"http://127.0.0.1:{merchant.site.port}"
    hook = "https://shop.example/hook"
    made = await shops.connect(services.db, services.keyring, tenant, url, "Shop", hook)
    await services.directory._refresh(0)
    secret = ShopConnection.read(made.text).webhook_secret
    (folder / "shop").mkdir()
    variables = {
        "SHOP_FOLDER": str(folder / "shop"),
        "SHOP_CONNECTION": made.text,
        "PHP_CLI_SERVER_WORKERS": "4",
    }
    with serving(PROGRAM, folder / "log", **variables) as shop_url:
        yield WooShop(shop_url, folder / "shop", secret, merchant, simulator)
