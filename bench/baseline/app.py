"""The baseline's application and its site-info endpoint, with the same checks as in Manilla."""

from baseline import limit, payments, payouts, settings
from baseline.authenticate import Caller, Session
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel
from sqlalchemy import text

app = FastAPI(openapi_url=None)
app.include_router(payments.router)
app.include_router(payouts.router)


class Features(BaseModel):
    ssl_secured: str = "SSL secured"
    instant_processing: str = "Instant processing"
    global_support: str = "Global support"
    mobile_ready: str = "Mobile ready"


class Environments(BaseModel):
    production: str = "Live environment: real payments and payouts, for approved merchants."
    sandbox: str = "Test environment: its own credentials and wallets, no real money."


class SiteInfo(BaseModel):
    site_name: str
    site_logo: str
    site_url: str
    gateway_name: str
    gateway_description: str
    features: Features = Features()
    environments: Environments = Environments()
    api_version: str = "1.0"
    status: str = "active"


@app.get("/readyz")
async def ready(db: Session) -> dict[str, str]:
    await db.execute(text("SELECT 1"))
    return {"status": "ready"}


@app.get("/api/v1/site-info")
async def site_info(request: Request, response: Response, caller: Caller, db: Session) -> SiteInfo:
    current = await settings.load(db)
    await limit.take(db, request, response, caller, int(current["rate_limit_per_minute"]))
    response.headers["cache-control"] = "no-store"
    return SiteInfo(**{name: current[name] for name in SiteInfo.model_fields if name in current})
