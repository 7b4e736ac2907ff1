"""The site's verbs: parse, call one function, print."""
