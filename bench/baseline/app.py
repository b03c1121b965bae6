"""The signed site-info endpoint, with the same checks as the product's."""

from datetime import UTC, datetime

from baseline import limit
from baseline.authenticate import Caller, Session
from baseline.models import Setting
from fastapi import FastAPI, HTTPException, Request, Response
from pydantic import BaseModel
from sqlalchemy import select, text

app = FastAPI(openapi_url=None)


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
    settings = {setting.key: setting.value for setting in await db.scalars(select(Setting))}
    # Last, and committed at once: every request of the merchant waits for this row.
    bucket = f"{caller.merchant_id}:{caller.environment}:{request.client.host}"
    window = await limit.count(db, bucket)
    await db.commit()
    allowed = int(settings["rate_limit_per_minute"])
    if window.used > allowed:
        raise HTTPException(429, "Too many requests.")
    seconds = max(1, int((window.started_at + limit.WINDOW - datetime.now(UTC)).total_seconds()))
    response.headers["ratelimit"] = f'"merchant";r={allowed - window.used};t={seconds}'
    response.headers["cache-control"] = "no-store"
    return SiteInfo(**{name: settings[name] for name in SiteInfo.model_fields if name in settings})
