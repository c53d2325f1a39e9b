"""Badges for a README: the last published signal, for everyone."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(include_in_schema=False)
