"""Limits of numbers that a user types; what lies beyond is refused before anything is allocated."""

from __future__ import annotations

from frost.training.settings import LARGEST_BATCH

__all__ = ["LARGEST_BATCH", "check_between"]


def check_between(option: str, number: int, least: int, most: int) -> None:
    """Refuse a number outside its limits, naming the option."""
    if not least <= number <= most:
        raise ValueError(f"{option} must be at least {least} and at most {most:,}, got {number}.")
