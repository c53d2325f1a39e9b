"""The meters one has a seat at, and each meter's page."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(include_in_schema=False)
