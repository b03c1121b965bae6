"""Builds the URLs of routes, with a sample value for each parameter."""

import re
from collections.abc import Mapping

from manilla.web.routes import Route

_PARAMETER = re.compile(r"\{([a-z_]+):[a-z]+\}")


def parameters(route: Route) -> list[str]:
    return _PARAMETER.findall(route.path)


def address(route: Route, samples: Mapping[str, str]) -> str:
    """Returns the URL of a route. Fails if a parameter has no sample value."""
    return _PARAMETER.sub(lambda found: samples[found.group(1)], route.path)


def shown(route: Route) -> str:
    return f"{route.method} {route.path}"
