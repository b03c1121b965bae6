"""A shop that takes payments with Manilla. See ../README.md for how to start it."""

import json
import os
import secrets
import threading
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from manilla_client import BadNotification, Client, verify_ipn

PAGES = Path(__file__).parents[1] / "shop-pages"
PRICE, CURRENCY = Decimal("7250.50"), "NGN"
MANILLA_URL, API_SECRET = os.environ["MANILLA_URL"], os.environ["MANILLA_API_SECRET"]
PORT = int(os.environ.get("PORT", "9000"))
SHOP_URL = os.environ.get("SHOP_URL", f"http://127.0.0.1:{PORT}")

client = Client.from_environment()
# Maps order references to transaction ids, as a database would: None before the id is known.
orders: dict[str, str | None] = {}
delivered, lock = set[str](), threading.Lock()


def buy() -> dict[str, str]:
    """Creates an order and its payment. The price comes from the server, not from the browser."""
    reference = f"ORDER-{secrets.token_hex(8)}"
    path = f"/orders/{reference}"
    orders[reference] = None  # Before the call: a notification can arrive before the response.
    session = client.initiate_payment(
        payment_amount=PRICE,
        currency_code=CURRENCY,
        ref_trx=reference,
        description="A calabash lamp",
        success_redirect=SHOP_URL + path,
        cancel_redirect=SHOP_URL + path,
        ipn_url=f"{SHOP_URL}/ipn",
        idempotency_key=reference,
    )
    orders[reference] = session.trx_id
    return {"order_url": path, "payment_url": session.payment_url}


def is_paid(reference: str, trx_id: str | None) -> bool:
    """Asks Manilla whether the order is paid, and delivers a paid order exactly once."""
    if reference in delivered or trx_id is None:
        return reference in delivered
    payment = client.verify_payment(trx_id)
    # Only success is final: money that arrives late can still turn a failed payment into success.
    if payment.status != "success" or (payment.amount, payment.currency) != (PRICE, CURRENCY):
        return False
    with lock:  # Another request may have delivered the order during the call.
        if reference not in delivered:
            delivered.add(reference)
            print("Deliver", reference, flush=True)
    return True


class Shop(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        # Checkout appends ?trx_id=… to the path. The shop does not use it, because anybody can.
        path = urlsplit(self.path).path
        reference = path.removeprefix("/orders/")
        if path == "/":
            self.show("product.html", manilla_url=MANILLA_URL)
        elif reference in orders:
            status = "paid" if is_paid(reference, orders[reference]) else "not paid yet"
            self.show("order.html", reference=reference, status=status)
        else:
            self.respond(404)

    def do_POST(self) -> None:
        if self.path == "/buy":
            self.respond(200, json.dumps(buy()))
        elif self.path == "/ipn":
            self.respond(self.receive_notification())
        else:
            self.respond(404)

    def receive_notification(self) -> int:
        length = min(max(int(self.headers.get("Content-Length", 0)), 0), 100_000)
        try:
            ipn = verify_ipn(self.rfile.read(length), self.headers, API_SECRET)
        except BadNotification:
            return 401
        if ipn.event != "payment":
            return 200
        if ipn.ref_trx not in orders:
            return 404  # Manilla retries, and shows the failed notification.
        is_paid(ipn.ref_trx, ipn.trx_id)
        return 200

    def show(self, name: str, **values: str) -> None:
        text = (PAGES / name).read_text()
        for key, value in {"price": f"{CURRENCY} {PRICE}", **values}.items():
            text = text.replace("{{ " + key + " }}", value)
        self.respond(200, text)

    def respond(self, status: int, text: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(text.encode())


print(f"The shop is open at {SHOP_URL}.", flush=True)
ThreadingHTTPServer(("127.0.0.1", PORT), Shop).serve_forever()
