"""The table of endpoints: version 1 and the legacy API."""

from manilla.api import payments, payouts
from manilla.api.endpoint import Call, Endpoint
from manilla.api.site_info import SiteInfo, describe
from manilla.kit.db import Database
from manilla.methods.catalogue import Catalogue
from manilla.payments import initiate as pay_in
from manilla.payouts import initiate as pay_out
from manilla.payouts.banks import Banks
from manilla.platform.settings import CurrentSettings


def endpoints(
    db: Database,
    platform: CurrentSettings,
    catalogue: Catalogue,
    banks: Banks,
    pay_ins: pay_in.Initiation,
    pay_outs: pay_out.Initiation,
    base_url: str,
) -> list[Endpoint]:
    async def site_info(_call: Call) -> SiteInfo:
        return describe(platform.now, base_url)

    return [
        Endpoint(
            method="GET",
            path="/api/v1/site-info",
            summary="Site info",
            description="Returns the site's name, URLs and texts, to show on your own pages.",
            answers=(SiteInfo,),
            use_case=site_info,
        ),
        *payments.endpoints(db, pay_ins),
        *payouts.endpoints(db, catalogue, banks, pay_outs),
    ]
