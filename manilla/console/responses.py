"""Redirects after a change in the console, and shows a message."""

from manilla.approvals.changes import ApprovalRequested
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse


def done_or_asked(request: PageRequest, path: str, result: object, done: str) -> PageResponse:
    """Redirects to a page that shows `done`, or a message that the change needs approval.

    `result` is the return value of `apply_or_ask`.
    """
    if isinstance(result, ApprovalRequested):
        done = (
            f"Nothing has changed yet. Another administrator must approve the change (approval"
            f" {result.approval_id})."
        )
    return request.redirect(path, done=done)
