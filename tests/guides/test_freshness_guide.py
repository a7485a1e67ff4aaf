"""The freshness guide's pipeline is as the page says: it promises a minute, and it answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from guidebook import Guide

pytestmark = pytest.mark.spark


def test_the_promise_of_the_guide_reaches_the_query(guide: Callable[..., Guide]) -> None:
    shop = guide("freshness")
    shop.feed('{"id": 1, "at": "2026-01-01T10:00:10Z", "amount": 2.5}\n')
    shop.feed('{"id": 2, "at": "2026-01-01T10:30:00Z", "amount": 1.0}\n')

    [planned] = shop.build().planned
    shop.drain()

    assert planned.query.fresh_within_s == 60.0
    assert shop.written("data/per_minute", "amount") == [(2.5,)]
