"""Mechanisms: what a site's records become before they may leave, first constrained one by one, then noised.

Invariant of the room: what one record can change is bounded before noise is drawn, by a bound that follows from
public parameters alone; noise comes from a cryptographic source, and no value of it is kept, logged or returned but
within what is released. Source: PRIVACY.md.
"""
