"""Makes changes visible in caches without waiting for a second."""

from manilla.services import Services


async def outdate(services: Services) -> None:
    """Makes the caches as old as they are a second after a change.

    The next API request, or the next look at a merchant, reads the changes first.
    """
    watch = services.watch
    async with watch._looking:
        watch._as_of = float("-inf")
