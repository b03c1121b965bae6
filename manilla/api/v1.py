"""The table of all API endpoints: version 1 and the legacy API."""

from manilla.api import (
    account,
    balances,
    customers,
    disputes,
    events,
    invoices,
    payment_links,
    payments,
    payouts,
    prices,
    refunds,
    saved_ways,
    splits,
    webhook_endpoints,
)
from manilla.api.endpoint import Call, Endpoint
from manilla.api.site_info import SiteInfo, describe
from manilla.services import Services


def endpoints(services: Services) -> list[Endpoint]:
    async def site_info(_call: Call) -> SiteInfo:
        return describe(services.platform.now, services.base_url)

    return [
        Endpoint(
            method="GET",
            path="/api/v1/site-info",
            summary="Site info",
            description="Returns the site's name, URLs and texts, to show on your own pages.",
            right=None,
            answers=(SiteInfo,),
            use_case=site_info,
        ),
        *account.endpoints(services),
        *payments.endpoints(services),
        *payment_links.endpoints(services),
        *refunds.endpoints(services),
        *disputes.endpoints(services),
        *customers.endpoints(services),
        *saved_ways.endpoints(services),
        *splits.endpoints(services),
        *balances.endpoints(services),
        *invoices.endpoints(services),
        *payouts.endpoints(services),
        *prices.endpoints(services),
        *events.endpoints(services.db, services.keyring),
        *webhook_endpoints.endpoints(services),
    ]
