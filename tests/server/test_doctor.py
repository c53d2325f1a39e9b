"""What the doctor is told of the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from easeml_meter.server.doctor import installation, mail_server
from easeml_meter.server.settings import Settings
from easeml_meter.service.notifications.emails import MailServer


def test_an_installation_is_what_the_settings_name(tmp_path: Path) -> None:
    found = installation(Settings(folder=tmp_path, trusted_proxy=("10.0.0.1",)))
    assert found.database == f"sqlite:///{tmp_path}/meter.db"
    assert (found.key, found.files) == (tmp_path / "server.key", str(tmp_path / "files"))
    assert (found.trusted_proxy, found.mail) == (("10.0.0.1",), None)
    assert "postgresql" not in repr(installation(Settings(database="postgresql://m:secret@h/m")))


def test_a_mail_server_has_what_the_settings_say() -> None:
    given = Settings(smtp_host="mail.example", smtp_from="m@example.org", smtp_user="me")
    assert mail_server(given) == MailServer("mail.example", "m@example.org", 587, "me")


@pytest.mark.parametrize(
    ("given", "clear"),
    [
        ({}, False),
        ({"host": "localhost"}, False),
        ({"host": "0.0.0.0"}, True),  # noqa: S104
        ({"host": "meter.example.org"}, True),
        ({"host": "::", "trusted_proxy": ("10.0.0.1",)}, False),
    ],
)
def test_tokens_travel_in_the_clear_to_other_machines_only(
    given: dict[str, Any], clear: bool
) -> None:
    assert Settings(**given).in_the_clear is clear
