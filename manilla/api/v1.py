"""The table of version 1's endpoints."""

from manilla.api.endpoint import Call, Endpoint
from manilla.api.site_info import SiteInfo, describe
from manilla.platform.settings import CurrentSettings


def endpoints(platform: CurrentSettings, base_url: str) -> list[Endpoint]:
    async def site_info(_call: Call) -> SiteInfo:
        return describe(platform.now, base_url)

    return [
        Endpoint(
            method="GET",
            path="/api/v1/site-info",
            summary="Site info",
            description="Names, addresses and texts of this site, for the merchant's own pages.",
            answer=SiteInfo,
            use_case=site_info,
        ),
    ]
