"""What the settings of a server name, for `meter doctor`."""

from __future__ import annotations

from easeml_meter.server.settings import Settings
from easeml_meter.service.doctor import Installation
from easeml_meter.service.notifications.emails import MailServer


def mail_server(settings: Settings) -> MailServer | None:
    """Return where e-mail is handed in; None: nowhere."""
    if not settings.smtp_host:
        return None
    return MailServer(
        settings.smtp_host,
        settings.smtp_from,
        settings.smtp_port,
        settings.smtp_user or None,
        settings.smtp_password or None,
        settings.smtp_starttls,
    )


def installation(settings: Settings) -> Installation:
    """Return what there is to examine."""
    return Installation(
        folder=settings.folder,
        database=settings.database_url,
        files=settings.files_place,
        key=settings.key_file,
        room=settings.room,
        mail=mail_server(settings),
        trusted_proxy=settings.trusted_proxy,
        allowed_host=settings.allowed_host,
        public_url=settings.public_url,
        in_the_clear=settings.in_the_clear,
    )
