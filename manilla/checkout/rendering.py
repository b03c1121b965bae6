"""Renders the pages of checkout. Templates escape by default, and responses are not cached."""

import hashlib
import math
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from litestar import MediaType, Response

from manilla.cases.suspense import Action
from manilla.checkout import display, scenes
from manilla.checkout.address import NO_STORE, Address
from manilla.checkout.scenes import Scene
from manilla.kit.money import Money
from manilla.methods.method import Flow
from manilla.payments.checkout import CheckoutView, SandboxOutcome
from manilla.payments.link import way_back
from manilla.payments.payment import PaymentStatus
from manilla.platform.settings import CurrentSettings

FOLDER = Path(str(resources.files("manilla.checkout")))
STATIC = FOLDER / "static"
STATIC_PATH = "/static/checkout"

# Longer descriptions are folded, so that the amount and the merchant stay visible.
DESCRIPTION_SHOWN = 160


def _version() -> str:
    """Version of the static files, which may be cached forever because their URL contains it."""
    content = b"".join(path.read_bytes() for path in sorted(STATIC.iterdir()))
    return hashlib.sha256(content).hexdigest()[:12]


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        money=display.money,
        duration=display.duration,
        clean=display.clean,
        name=display.name,
        gateway=display.gateway,
        paid=lambda charge: Money(charge.currency, charge.paid_minor),
    )
    environment.globals.update(
        static=STATIC_PATH,
        version=_version(),
        Flow=Flow,
        SandboxOutcome=SandboxOutcome,
        Action=Action,
        shown=DESCRIPTION_SHOWN,
    )
    return environment


class Pages:
    def __init__(self, platform: CurrentSettings, *, is_development: bool) -> None:
        self._platform = platform
        self._is_development = is_development
        self._templates = _environment()

    def show(
        self,
        scene: Scene,
        view: CheckoutView,
        address: Address,
        status: int = 200,
        *,
        alert: str | None = None,
        is_sent: bool = False,
    ) -> Response[str]:
        """Shows a payment's current state. `alert` says why the last action failed.

        The page polls for its version and reloads when it changes. After the link has expired, it
        cannot poll.
        """
        is_final = status == 410 or view.payment.status is PaymentStatus.SUCCESS
        if scene is Scene.METHODS and alert is None:
            alert = scenes.decline_of(view)
        return self._respond(
            f"{scene}.html",
            status,
            view=view,
            payment=view.payment,
            merchant=display.name(view.merchant_name),
            charge=view.charge,
            method=scenes.method_of(view),
            seconds=_seconds_until(_end(scene, view, address)),
            completes_in=_seconds_until(view.completes_at) if view.completes_at else None,
            address=address,
            back=way_back(view.payment),
            alert=alert,
            version_shown=None if is_final else scenes.version_of(view),
            is_sent=is_sent,
            is_left=alert == scenes.LEFT,
        )

    def hand_over(self, view: CheckoutView) -> Response[str]:
        """Uses a refresh and a link, because browsers do not follow a form's redirect to another
        site.
        """
        method = scenes.method_of(view)
        return self._respond(
            "hand_over.html", payment=view.payment, charge=view.charge, method=method
        )

    def link_altered(self) -> Response[str]:
        """Reveals nothing about a payment, because the link is not valid."""
        return self._respond("link_altered.html", 403)

    def trouble(self, status: int, text: str, address: Address) -> Response[str]:
        """An error on our side. The same URL may work again in a moment."""
        return self._respond("trouble.html", status, text=text, again=address.to())

    def _respond(self, template: str, status: int = 200, **values: Any) -> Response[str]:
        text = self._templates.get_template(template).render(
            gateway_name=display.name(self._platform.now.gateway_name),
            is_development=self._is_development,
            **{"version_shown": None, **values},
        )
        return Response(text, status_code=status, media_type=MediaType.HTML, headers=NO_STORE)


def _end(scene: Scene, view: CheckoutView, address: Address) -> datetime:
    """When the link expires, or the account to transfer to, if that is earlier."""
    account_ends = view.charge.account_expires_at if view.charge else None
    if scene is not Scene.TRANSFER or account_ends is None:
        return address.ends_at
    return min(address.ends_at, account_ends)


def _seconds_until(moment: datetime) -> int:
    """Rounded up, so that a page that reloads at zero does not reload too early."""
    return max(0, math.ceil((moment - datetime.now(UTC)).total_seconds()))
