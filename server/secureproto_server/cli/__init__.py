"""The operator's verbs: parse, call one function, print."""
