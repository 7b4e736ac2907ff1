"""The ledger of each data set of the site, in a SQLite file of its own: `secureproto/privacy/ledger/SPEC.md`."""
