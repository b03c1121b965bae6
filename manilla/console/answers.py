"""Flash messages of the console."""

from manilla.approvals.changes import Asked
from manilla.web.routes import Answer
from manilla.web.visit import Visit


def done_or_asked(visit: Visit, path: str, result: object, done: str) -> Answer:
    """Redirects with the message `done`, or says that the change needs approval.

    `result` is the return value of `apply_or_ask`.
    """
    if isinstance(result, Asked):
        done = (
            f"Nothing has changed yet. Another administrator must approve the change (approval"
            f" {result.approval_id})."
        )
    return visit.redirect(path, done=done)
