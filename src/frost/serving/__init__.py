"""Runs behind HTTP: `frost serve` and `frost.Client`, on top of `frost.AsyncEngine`."""
