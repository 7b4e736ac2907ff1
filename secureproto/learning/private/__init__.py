"""Training under differential privacy: Poisson sampling, one joint clip per record, noise from the system's entropy.

Opacus' parts are assembled here; its engine, which takes rate and divisor from the private number of records, is not
used. Source: DP-SGD (Abadi et al., CCS 2016, algorithm 1); PRIVACY.md, "DP-SGD".
"""
