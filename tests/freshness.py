"""Makes changes visible in caches immediately, instead of within a second."""

from manilla.services import Services


async def outdate(services: Services) -> None:
    """Makes the caches outdated, as they are a second after a change.

    The next API request, or the next lookup of a merchant, reloads the changes.
    """
    watch = services.watch
    async with watch._looking:
        watch._as_of = float("-inf")
