"""The layout of a realm's pages: templates, navigation and cookie names."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from manilla.people.roles import Permission, Realm
from manilla.services import Services
from manilla.web.rendering import environment, unique_names


class NavigationItem(msgspec.Struct, frozen=True):
    """A navigation link. A path that depends on the environment starts with `~`."""

    title: str
    path: str
    icon: str
    needs: Permission
    is_outside: bool = False  # whether the path is not below the realm's root


# Navigation links by the title of their section.
Navigation = Mapping[str, Sequence[NavigationItem]]

# The values for templates when no form was rejected.
NO_FORM: Mapping[str, Any] = {
    "problem_text": None,
    "page_errors": {},
    "page_given": None,
    "failed_form": "",
}


class Layout:
    def __init__(
        self,
        realm: Realm,
        services: Services,
        templates: Path,
        navigation: Navigation,
    ) -> None:
        self.realm = realm
        self.root = f"/{realm}"
        self.services = services
        self.platform = services.platform
        self.navigation = navigation
        self.demo_login = services.demo_login
        self.is_development = services.is_development
        self.is_secure = services.base_url.startswith("https://")
        self._templates = environment(templates)
        self._templates.globals.update(layout=self)

    @property
    def cookie(self) -> str:
        """The name of the session cookie."""
        return self.cookie_named(f"manilla_{self.realm}")

    def cookie_named(self, name: str) -> str:
        """Adds the `__Secure-` prefix over https.

        Over http, browsers would reject such a cookie.
        """
        return f"{'__Secure-' if self.is_secure else ''}{name}"

    def render(self, template: str, **values: Any) -> str:
        return self._templates.get_template(template).render(
            {**NO_FORM, "unique": unique_names(), **values}
        )
