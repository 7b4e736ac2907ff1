"""Every bound on what a peer may send, each with its reason, in one frozen value."""

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True)
class Limits:
    """Bounds in bytes and seconds. One instance, `LIMITS`, is used by both ends."""

    manifest_core: int = 8 * KIB  # the longest real core is 1.6 KiB; room for receipts to grow
    manifest: int = 8 * KIB + 512  # core, wrapped key (113), lengths, digest and signature (72)
    message: int = 64 * KIB  # any signed message but the two below; a poll reply has at most 8 studies
    root_document: int = 4 * MIB  # 10,000 sites at 400 bytes
    study_file: int = 256 * KIB  # 2,000 features
    descriptor: int = 8 * MIB  # study file and tensor names of a very deep model
    header_bytes: int = 16 * KIB  # an admin request's signature is 1.5 KiB; browsers never come here
    header_count: int = 64  # ours send 8
    header_seconds: float = 10.0  # a request's headers; slow-drip clients are cut
    body_rate: int = 16 * KIB  # bytes a second, at the least; a hospital's worst line is ten times that
    body_grace_seconds: float = 10.0  # before the rate counts
    poll_seconds: int = 25  # under the 30 s at which proxies cut idle requests
    clock_skew: int = 600  # more than ten minutes needs a person
    token_seconds: int = 86_400  # an invitation's life
    certificate_seconds: int = 72 * 3600  # client certificates; renewed at half-life
    admin_seconds: int = 120  # an admin request's life
    chunk: int = MIB  # what streams at once


LIMITS = Limits()
