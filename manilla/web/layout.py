"""Templates, navigation and cookie names of the dashboard and the console."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from manilla.people.roles import Permission, Realm
from manilla.services import Services
from manilla.web.rendering import environment, unique_names

OFFERED_MAX = 8


class NavigationItem(msgspec.Struct, frozen=True):
    """A navigation link. A path that depends on the environment starts with `~`."""

    title: str
    path: str
    icon: str
    needs: Permission
    is_outside: bool = False  # whether the path is outside `/dashboard` and `/console`


class OfferedPage(msgspec.Struct, frozen=True):
    """A page or an action that the search suggests."""

    title: str
    group: str
    icon: str
    url: str


# A function that maps the paths of navigation links to the numbers shown beside the links.
NavigationCounts = Callable[[Any], Awaitable[Mapping[str, int]]]

# Maps section titles to navigation links.
Navigation = Mapping[str, Sequence[NavigationItem]]

# The default template values of a page without a rejected form.
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
        actions: Sequence[NavigationItem] = (),
        counts: NavigationCounts | None = None,
        open_groups: Sequence[str] = (),
    ) -> None:
        self.realm = realm
        self.root = f"/{realm}"
        self.services = services
        self.platform = services.platform
        self.navigation = navigation
        self.actions = actions  # the actions that the search suggests
        self.counts = counts
        # The groups of the menu that are expanded until the user collapses them.
        self.open_groups = open_groups
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
        """Returns the cookie's name, with the prefix `__Secure-` if the site uses https.

        Over http, browsers reject cookies with this prefix.
        """
        return f"{'__Secure-' if self.is_secure else ''}{name}"

    def url(self, item: NavigationItem, environment: str) -> str:
        if item.is_outside:
            return item.path
        return self.root + item.path.replace("~", f"/{environment}", 1)

    def offered(
        self, may: Callable[[Permission], bool], environment: str, text: str = ""
    ) -> list[OfferedPage]:
        """Returns the actions and pages whose titles contain all words of the text.

        Without a text, returns all actions.
        """
        items = [("Actions", item) for item in self.actions]
        if text:
            pages = [item for section in self.navigation.values() for item in section]
            items += [("Pages", item) for item in pages]
        words = text.lower().split()
        found = [
            OfferedPage(item.title, group, item.icon, self.url(item, environment))
            for group, item in items
            if may(item.needs) and all(word in item.title.lower() for word in words)
        ]
        return found[:OFFERED_MAX]

    def render(self, template: str, **values: Any) -> str:
        return self._templates.get_template(template).render(
            {**NO_FORM, "unique": unique_names(), **values}
        )
