"""Rows of users, seats and tokens, read as values."""

from __future__ import annotations

from typing import Any

from easeml_meter.core.people import Member, Role, Token, User


def user_of(row: dict[str, Any]) -> User:
    """Return a row as a user."""
    return User(
        row["id"], row["name"], row["email"], row["admin"], row["disabled"], row["created_at"]
    )


def member_of(row: dict[str, Any]) -> Member:
    """Return a row as a seat."""
    return Member(**(row | {"role": Role(row["role"])}))


def token_of(row: dict[str, Any]) -> Token:
    """Return a row as a token, without its digest."""
    plain = {key: value for key, value in row.items() if key != "digest"}
    return Token(**(plain | {"scopes": tuple(row["scopes"])}))
