"""Keys, passphrases, signed envelopes, certificates and sealing. See SPEC.md."""
