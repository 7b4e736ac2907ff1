"""Settings do what they say: those that no other test would miss."""

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509

from support.parts import Parts, parts_in


@pytest.mark.parametrize("hours", [5, 72])
def test_certificates_live_as_long_as_the_settings_say(tmp_path: Path, hours: int) -> None:
    parts = parts_in(tmp_path)
    settings = parts.services.settings.model_copy(update={"certificate_hours": hours})
    changed = Parts(replace(parts.services, settings=settings), parts.clock, parts.person, parts.operator)
    leaf = x509.load_der_x509_certificate(changed.enrol("alpha", tmp_path).certificate)
    assert leaf.not_valid_after_utc.timestamp() == parts.clock.now() + hours * 3600
