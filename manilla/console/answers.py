"""How the console tells what became of a form."""

from manilla.approvals.changes import Asked
from manilla.kit.errors import Refusal
from manilla.web.routes import Answer
from manilla.web.visit import Visit


def done_or_asked(visit: Visit, path: str, result: object, done: str) -> Answer:
    """`result` is what `apply_or_ask` gave."""
    if isinstance(result, Asked):
        done = (
            f"Nothing has changed yet: it waits for another administrator, as approval"
            f" {result.approval_id}."
        )
    return visit.redirect(path, done=done)


def sent_back(visit: Visit, path: str, refusal: Refusal) -> Answer:
    """To where the form was, with the reason."""
    return visit.redirect(path, failed=reason(refusal))


def reason(refusal: Refusal) -> str:
    """Of the first field at fault, where one is."""
    return next(iter((refusal.errors or {}).values()), refusal.text)
