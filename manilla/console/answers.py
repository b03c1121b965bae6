"""How the console tells what became of a form."""

from manilla.approvals.changes import Asked
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
