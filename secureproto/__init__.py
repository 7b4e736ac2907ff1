"""SecureProto: personalised federated learning that can prove what left the building."""

__version__ = "0.1.0"
