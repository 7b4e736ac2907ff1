"""What was released of a data set, charged before it leaves: entries, their rules, the procedure. See SPEC.md."""
