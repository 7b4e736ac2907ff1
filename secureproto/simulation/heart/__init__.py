"""The heart disease data of four hospitals, and the study of the demo. Origin and licence: README.md beside this."""
