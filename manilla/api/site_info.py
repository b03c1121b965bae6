"""The endpoint GET /api/v1/site-info, which returns the platform's name and description."""

import msgspec

from manilla.platform.settings import PlatformSettings


class SiteFeatures(msgspec.Struct, frozen=True):
    ssl_secured: str = "SSL secured"
    instant_processing: str = "Instant processing"
    global_support: str = "Global support"
    mobile_ready: str = "Mobile ready"


class SiteEnvironments(msgspec.Struct, frozen=True):
    production: str = "Live environment: real payments and payouts, for approved merchants."
    sandbox: str = "Test environment: its own credentials and wallets, no real money."


class SiteInfo(msgspec.Struct, frozen=True):
    site_name: str
    site_logo: str
    site_url: str
    gateway_name: str
    gateway_description: str
    features: SiteFeatures = SiteFeatures()
    environments: SiteEnvironments = SiteEnvironments()
    api_version: str = "1.0"
    status: str = "active"


def describe(settings: PlatformSettings, base_url: str) -> SiteInfo:
    return SiteInfo(
        site_name=settings.site_name,
        site_logo=settings.site_logo or f"{base_url}/static/logo.svg",
        site_url=settings.site_url or base_url,
        gateway_name=settings.gateway_name,
        gateway_description=settings.gateway_description,
    )
