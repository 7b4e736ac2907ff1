"""What crosses the network: canonical bytes, tensor layout, messages, reasons, limits. See SPEC.md."""
