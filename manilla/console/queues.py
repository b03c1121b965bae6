"""What the lists of the queues have in common: filters that live in the address."""

from collections.abc import Sequence

from manilla.kit import ids
from manilla.ledger.posting import Environment
from manilla.ledger.scope import Everyone
from manilla.web.forms import BadForm
from manilla.web.visit import Visit

ALL = "all"
ENVIRONMENT, SHOW = "environment", "show"
VIEWS = (ENVIRONMENT, SHOW)  # which list it is, beside its filters


def scope(visit: Visit) -> Everyone:
    """All merchants and both environments, but for what is chosen."""
    environment = visit.query.text("environment")
    known = environment in set(Environment)
    return Everyone(merchant(visit), Environment(environment) if known else None)


def money_scope(visit: Visit) -> Everyone:
    """Production, unless the sandbox is chosen: a person pays real money by these lists."""
    is_sandbox = visit.query.text(ENVIRONMENT) == Environment.SANDBOX
    visit.environment_or_none = Environment.SANDBOX if is_sandbox else Environment.PRODUCTION
    return Everyone(merchant(visit), visit.environment_or_none)


def merchant(visit: Visit, name: str = "merchant") -> int | None:
    given = visit.form if visit.request.method == "POST" else visit.query
    if not given.text(name):
        return None
    number = given.whole(name)
    if not 0 < number <= ids.MERCHANT_ID_MAX:
        raise BadForm(errors={name: "There is no merchant of this number."})
    return number


def shown(visit: Visit, name: str, options: Sequence[str]) -> str:
    """What a list is narrowed to: the first option, unless something else or all is asked for.

    Who looks for one thing wants to find it whatever its state.
    """
    given = visit.query.text(name)
    if given in options or given == ALL:
        return given
    return ALL if visit.query.text("q") else options[0]
