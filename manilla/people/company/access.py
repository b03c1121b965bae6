"""Signs users in with the response of a provider, and ends sessions when the provider says so."""

import hmac
import time
from typing import Any

import msgspec

from manilla.audit import audit
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Connection, Database
from manilla.kit.errors import Refusal
from manilla.people import security_log, sessions
from manilla.people.company import identities, providers
from manilla.people.company.identities import CompanySignInRefused
from manilla.people.company.openid import (
    SKEW_SECONDS,
    AuthorizationRequest,
    OpenIdClient,
    SignInUnavailable,
)
from manilla.people.company.providers import SignInProvider
from manilla.people.queries import Person
from manilla.people.security_log import SecurityEvent, SecurityOutcome, SecuritySubject
from manilla.people.sessions import NewSession
from manilla.people.visitor import Visitor

REQUEST_SECONDS = 900


class CompanySignInEnded(Refusal):
    status, code = 403, "SIGN_IN_STATE_REFUSED"
    message = "This sign-in has expired, or was started in another browser. Start it again."


class ProviderResponse(msgspec.Struct, frozen=True):
    """The parameters with which the provider sends the browser back."""

    state: str
    code: str
    issuer: str | None
    error: str


class CompanyAccess(msgspec.Struct, frozen=True):
    db: Database
    keyring: Keyring
    client: OpenIdClient

    async def accept(
        self,
        provider: SignInProvider,
        request: AuthorizationRequest | None,
        response: ProviderResponse,
        redirect_uri: str,
    ) -> dict[str, Any]:
        """Returns the verified claims of the user who signed in at the provider."""
        try:
            return await self._accept(provider, request, response, redirect_uri)
        except Refusal as refusal:
            outcome = SecurityOutcome.REFUSED
            if isinstance(refusal, SignInUnavailable):
                outcome = SecurityOutcome.PROVIDER_UNAVAILABLE
            await self._record_failure(provider, outcome)
            raise

    async def _accept(
        self,
        provider: SignInProvider,
        request: AuthorizationRequest | None,
        response: ProviderResponse,
        redirect_uri: str,
    ) -> dict[str, Any]:
        from manilla.people.company import tokens

        _check_state(provider, request, response)
        assert request is not None
        await self.client.check_issuer(provider, response.issuer)
        if response.error or not response.code:
            shown = "".join(each for each in response.error[:100] if each.isprintable())
            raise CompanySignInRefused(f"Your company's sign-in was not completed: {shown}.")
        secret = await providers.secret(self.db, self.keyring, provider)
        code = response.code
        found = await self.client.exchange(provider, request, code, redirect_uri, secret)
        claims = await tokens.id_token(
            *(self.client, provider, found.id_token),
            nonce=request.nonce,
            access_token=found.access_token,
            since=None if request.confirms is None else request.started_at,
        )
        more = await self.client.user_information(provider, found.access_token)
        # Anybody's token could be answered with another user's information.
        if more and more.get("sub") != claims["sub"]:
            raise CompanySignInRefused
        return {**more, **claims}

    async def begin_session(
        self, provider: SignInProvider, claims: dict[str, Any], address: str, user_agent: str
    ) -> tuple[Person, NewSession]:
        try:
            person = await identities.person_of(self.db, provider, claims["sub"], claims)
        except CompanySignInRefused:
            await self._record_failure(provider, SecurityOutcome.NO_ROLE)
            raise
        async with self.db.transaction() as connection:
            # A change of the provider, which ends its sessions, must not miss this one.
            if not await providers.lock(connection, provider):
                raise CompanySignInEnded
            session = await sessions.begin(
                *(connection, person.id, provider.realm),
                merchant_id=provider.merchant_id or None,
                second_factor=False,
                address=address,
                user_agent=user_agent,
                provider_merchant_id=provider.merchant_id,
                provider_session=claims.get("sid"),
            )
            who = SecuritySubject(person.id, person.email)
            await security_log.record_sign_in(
                connection, provider.realm, who, issuer=provider.issuer
            )
        security_log.report(SecurityEvent.SIGN_IN, SecurityOutcome.DONE, provider.realm, who)
        return person, session

    async def confirm(
        self, provider: SignInProvider, visitor: Visitor, subject: str, session_id: int
    ) -> None:
        """Confirms the identity of a user who has just authenticated again at the provider."""
        known = await identities.find(self.db, provider, subject)
        is_same = known is not None and known.person_id == visitor.person_id
        if not is_same or visitor.session_id != session_id:
            raise CompanySignInRefused("You signed in as another user.")
        if visitor.has_password or visitor.has_totp:
            raise CompanySignInRefused("Confirm your identity with your code or password.")
        await self.db.execute(
            "UPDATE session SET stepped_up_at = now() WHERE id = $1", visitor.session_id
        )
        who = SecuritySubject(visitor.person_id, visitor.email)
        security_log.report(SecurityEvent.STEP_UP, SecurityOutcome.DONE, provider.realm, who)

    async def end_sessions(self, provider: SignInProvider, token: str) -> None:
        """Ends the sessions that a logout token names. A replayed token ends no later session."""
        from manilla.people.company import tokens

        claims = await tokens.logout_token(self.client, provider, token)
        async with self.db.transaction() as connection:
            ended = await _end_sessions(connection, provider, claims)
            if ended:
                await audit.record(
                    *(connection, "sign_in.provider_sign_out", f"person:{ended[0]}"),
                    merchant_id=provider.merchant_id or None,
                    issuer=provider.issuer,
                    sessions_ended=len(ended),
                )

    async def _record_failure(self, provider: SignInProvider, outcome: SecurityOutcome) -> None:
        event, realm = SecurityEvent.SIGN_IN, provider.realm
        await security_log.record_failure(self.db, event, outcome, realm, None)


def _check_state(
    provider: SignInProvider, request: AuthorizationRequest | None, response: ProviderResponse
) -> None:
    """Checks that this browser started the sign-in, at the provider that responds."""
    if (
        request is None
        or (request.merchant_id, request.issuer) != (provider.merchant_id, provider.issuer)
        or not hmac.compare_digest(request.state.encode(), response.state.encode())
        or not 0 <= time.time() - request.started_at < REQUEST_SECONDS
    ):
        raise CompanySignInEnded


async def _end_sessions(
    connection: Connection, provider: SignInProvider, claims: dict[str, Any]
) -> list[int]:
    rows = await connection.records(
        """
        DELETE FROM session s USING company_identity i
         WHERE s.provider_merchant_id = $1 AND i.merchant_id = $1 AND i.issuer = $2
           AND i.person_id = s.person_id AND ($3::text IS NULL OR i.subject = $3)
           AND (s.provider_session = $4
                OR $3 IS NOT NULL AND ($4::text IS NULL OR s.provider_session IS NULL))
           AND s.created_at < to_timestamp($5::double precision)
        RETURNING s.person_id""",
        *(provider.merchant_id, provider.issuer, claims.get("sub"), claims.get("sid")),
        # The provider's clock can be slow. A session that began a little later ends too.
        claims["iat"] + SKEW_SECONDS,
    )
    return [row["person_id"] for row in rows]
