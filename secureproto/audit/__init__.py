"""The tamper-evident log: entries, Merkle tree, signed checkpoints, offline verification. See SPEC.md."""
