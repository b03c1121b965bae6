"""Filters in the query string that the queue pages share."""

from collections.abc import Sequence

from manilla.kit import ids
from manilla.ledger.posting import Environment
from manilla.ledger.scope import Everyone
from manilla.web.forms import BadForm
from manilla.web.visit import Visit

ALL = "all"
ENVIRONMENT, SHOW = "environment", "show"
VIEWS = (ENVIRONMENT, SHOW)  # parameters that select the list itself, apart from its filters


def scope(visit: Visit) -> Everyone:
    """All merchants and both environments, unless the query selects one."""
    environment = visit.query.text("environment")
    known = environment in set(Environment)
    return Everyone(merchant(visit), Environment(environment) if known else None)


def money_scope(visit: Visit) -> Everyone:
    """Production unless the sandbox is selected, because people pay real money from these lists."""
    is_sandbox = visit.query.text(ENVIRONMENT) == Environment.SANDBOX
    visit.environment_or_none = Environment.SANDBOX if is_sandbox else Environment.PRODUCTION
    return Everyone(merchant(visit), visit.environment_or_none)


def merchant(visit: Visit, name: str = "merchant") -> int | None:
    given = visit.form if visit.request.method == "POST" else visit.query
    if not given.text(name):
        return None
    number = given.whole(name)
    if not 0 < number <= ids.MERCHANT_ID_MAX:
        raise BadForm(errors={name: "No merchant has this number."})
    return number


def shown(visit: Visit, name: str, options: Sequence[str]) -> str:
    """The selected option, or the first one if the query selects none.

    A search without a selected option covers all of them.
    """
    given = visit.query.text(name)
    if given in options or given == ALL:
        return given
    return ALL if visit.query.text("q") else options[0]
