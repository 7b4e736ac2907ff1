"""How a site reaches its server: one seam, HTTP over pinned TLS behind it, and a diagnosis when it does not."""
