"""The content security policy of the pages."""

from collections.abc import Sequence

NO_FRAMES = "'none'"


def content_policy(*, shown_in: Sequence[str] = (), frames: str = NO_FRAMES) -> str:
    """Returns a policy that forbids inline scripts and styles, and other sites' content.

    `shown_in` lists the origins whose pages may show this page in a frame. `frames` is the source
    of the frames that this page may show.
    """
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
        f"frame-src {frames}; frame-ancestors {' '.join(shown_in) or NO_FRAMES}"
    )
