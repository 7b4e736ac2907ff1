"""Shared test code: oracles, independent encoders, example third-party packages, fixtures with real processes."""
