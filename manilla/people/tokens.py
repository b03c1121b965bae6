"""Tokens for sessions and links: 256 random bits. Only a token's hash is stored."""

import hashlib
import secrets

TOKEN_BYTES = 32
TOKEN_LENGTH_MAX = 100


def new() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


def digest(token: str) -> bytes:
    """Returns the hash by which a token is stored and looked up.

    The token is random, so a fast hash is enough. The time of a lookup does not reveal the token.
    """
    return hashlib.sha256(token[:TOKEN_LENGTH_MAX].encode("utf-8", "replace")).digest()
