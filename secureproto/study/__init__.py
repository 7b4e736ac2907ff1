"""The study file: what is learned, from which columns, how, and when it stops. See SPEC.md."""
