"""Authenticates a request: loads the credential, then checks the timestamp and the signature."""

import hashlib
import hmac
import time
from typing import Annotated

from baseline.database import new_session
from baseline.models import Credential
from fastapi import Depends, Header, HTTPException, Request
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import joinedload

TOLERANCE_SECONDS = 300


async def session():
    async with new_session() as opened:
        yield opened


Session = Annotated[AsyncSession, Depends(session)]


async def authenticate(
    request: Request,
    db: Session,
    x_merchant_key: Annotated[str, Header()],
    x_api_key: Annotated[str, Header()],
    x_timestamp: Annotated[int, Header()],
    x_signature: Annotated[str, Header()],
    x_environment: Annotated[str, Header()] = "production",
) -> Credential:
    credential = await db.scalar(
        select(Credential)
        .options(joinedload(Credential.merchant, innerjoin=True))
        .where(Credential.merchant_key == x_merchant_key, Credential.environment == x_environment)
    )
    api_key_hash = hashlib.sha256(x_api_key.encode()).digest()
    if credential is None or not hmac.compare_digest(credential.api_key_hash, api_key_hash):
        raise HTTPException(401, "Invalid credentials.")
    if abs(time.time() - x_timestamp) > TOLERANCE_SECONDS:
        raise HTTPException(401, "The timestamp is outside the tolerance.")
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    head = f"{x_timestamp}.{request.method}.{target}.".encode()
    expected = hmac.new(credential.secret, head + await request.body(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected, x_signature):
        raise HTTPException(401, "The signature does not match.")
    if credential.merchant.status != "approved":
        raise HTTPException(403, "The merchant is not approved.")
    return credential


Caller = Annotated[Credential, Depends(authenticate)]
