"""The layout of a realm's pages: templates, navigation and cookie names."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from manilla.kit.errors import Refusal
from manilla.kit.http import Network
from manilla.people.demo_login import DemoLogin
from manilla.people.roles import Permission, Realm
from manilla.platform.settings import CurrentSettings
from manilla.web.rendering import environment


class Item(msgspec.Struct, frozen=True):
    """A navigation link. A path that depends on the environment starts with `~`."""

    title: str
    path: str
    icon: str
    needs: Permission


class Section(msgspec.Struct, frozen=True):
    title: str
    items: Sequence[Item]


class Layout:
    def __init__(
        self,
        realm: Realm,
        platform: CurrentSettings,
        templates: Path,
        navigation: Sequence[Section],
        *,
        base_url: str,
        trusted_proxies: Sequence[Network],
        demo_login: DemoLogin | None,
        is_development: bool,
    ) -> None:
        self.realm = realm
        self.root = f"/{realm}"
        self.platform = platform
        self.navigation = navigation
        self.base_url = base_url
        self.trusted_proxies = trusted_proxies
        self.demo_login = demo_login  # the demo user, in development mode
        self.is_development = is_development
        self.is_secure = base_url.startswith("https://")
        self._templates = environment(templates)
        self._templates.globals.update(layout=self)

    @property
    def cookie(self) -> str:
        """Name of the session cookie."""
        return self.cookie_named(f"manilla_{self.realm}")

    def cookie_named(self, name: str) -> str:
        """Adds the `__Secure-` prefix over https. Browsers reject it over http."""
        return f"{'__Secure-' if self.is_secure else ''}{name}"

    def render(self, template: str, **values: Any) -> str:
        defaults: Mapping[str, Any] = {
            "problem_text": None,
            "page_errors": {},
            "page_given": None,
            "failed_form": "",
        }
        return self._templates.get_template(template).render({**defaults, **values})


class NotHere(Refusal):
    status, code = 404, "NOT_FOUND"
    message = "This page does not exist."
