"""Makes changes visible in caches immediately, instead of up to a second later."""

from manilla.services import Services


async def outdate(services: Services) -> None:
    """Marks the caches as outdated, as if a second had passed since the change.

    The next API request, or the next lookup of a merchant, reloads the changed data.
    """
    watch = services.watch
    async with watch._looking:
        watch._as_of = float("-inf")
