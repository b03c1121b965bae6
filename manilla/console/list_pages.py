"""Filters in the query string that the queue pages share."""

from collections.abc import Sequence

from manilla.kit.environment import Environment
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone
from manilla.web.forms import BadForm
from manilla.web.page_request import PageRequest

ALL = "all"
ENVIRONMENT, SHOW = "environment", "show"
VIEWS = (ENVIRONMENT, SHOW)  # parameters that select the list itself, apart from its filters


def scope(request: PageRequest) -> Everyone:
    """All merchants and both environments, unless the query selects one."""
    environment = request.query.text("environment")
    known = environment in set(Environment)
    return Everyone(merchant(request), Environment(environment) if known else None)


def money_scope(request: PageRequest) -> Everyone:
    """Production unless the sandbox is selected, because people pay real money from these lists."""
    is_sandbox = request.query.text(ENVIRONMENT) == Environment.SANDBOX
    request.environment_or_none = Environment.SANDBOX if is_sandbox else Environment.PRODUCTION
    return Everyone(merchant(request), request.environment_or_none)


def merchant(request: PageRequest, name: str = "merchant") -> int | None:
    given = request.form if request.http.method == "POST" else request.query
    if not given.text(name):
        return None
    number = given.whole(name)
    if not 0 < number <= trx_ids.MERCHANT_ID_MAX:
        raise BadForm(errors={name: "No merchant has this number."})
    return number


def selected(request: PageRequest, name: str, options: Sequence[str]) -> str:
    """The selected option, or the first one if the query selects none.

    A search without a selected option covers all of them.
    """
    given = request.query.text(name)
    if given in options or given == ALL:
        return given
    return ALL if request.query.text("q") else options[0]
