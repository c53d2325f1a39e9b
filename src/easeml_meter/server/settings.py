"""Settings of a server: from a file, the environment or flags, the later ones winning."""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict
from pydantic_settings import PydanticBaseSettingsSource as Source

from easeml_meter.checks import is_loopback
from easeml_meter.core.people import GroupSeat
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.scoring.executors import open_executor
from easeml_meter.scoring.sandbox import check_out_of_sight
from easeml_meter.service.place import Room
from easeml_meter.tables.source import USUAL_LIMITS, TableLimits

ENVIRONMENT = "METER_SERVER_"
Level = Literal["debug", "info", "warning", "error"]


class Settings(BaseSettings):
    """How a server runs."""

    # Strict: a file's '80' is not the number 80. Paths and lists have no type of their own in TOML.
    model_config = SettingsConfigDict(
        frozen=True, strict=True, case_sensitive=True, use_attribute_docstrings=True
    )

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(default=8080, ge=0, le=65535)
    """Port to listen on; 0: any free one."""
    folder: Path = Field(default=Path("meter-server"), strict=False)
    """Folder of the key and, by default, of database and files."""
    database: str = Field(default="", repr=False)
    """Address of the database; empty: SQLite in the folder."""
    files: str = Field(default="", repr=False)
    """Folder or fsspec URL of sealed files; empty: in the folder."""
    key: Path | None = Field(default=None, strict=False)
    """The server's secret key, made if there is none; empty: in the folder."""
    tls_certificate: Path | None = Field(default=None, strict=False)
    """Certificate chain (PEM), to serve https."""
    tls_key: Path | None = Field(default=None, strict=False)
    """Private key of the certificate (PEM)."""
    trusted_proxy: tuple[str, ...] = Field(default=(), strict=False)
    """Address or network of a proxy whose forwarded headers are trusted; repeatable."""
    allowed_host: tuple[str, ...] = Field(default=(), strict=False)
    """Host name that requests may use; repeatable; empty: any. Health and metrics: also by IP."""
    public_url: str = ""
    """Address of this server that its pages show in commands; empty: the one that was asked."""
    largest_body: int = Field(default=64 << 20, ge=1)
    """Most bytes of one submission or validation set."""
    held_bytes_per_user: int = Field(default=256 << 20, ge=1)
    """Most bytes of unanswered requests of one user, or from one address without a token."""
    held_bytes: int = Field(default=1 << 30, ge=1)
    """Most bytes of unanswered requests in all."""
    most_rows: int = Field(default=USUAL_LIMITS.most_rows, ge=1)
    """Most rows of one table in an upload."""
    most_columns: int = Field(default=USUAL_LIMITS.most_columns, ge=1)
    """Most columns of one table in an upload."""
    most_decoded_bytes: int = Field(default=USUAL_LIMITS.most_decoded_bytes, ge=1)
    """Most bytes of one table in an upload when it is decoded."""
    longest_text: int = Field(default=USUAL_LIMITS.longest_text, ge=1)
    """Most bytes of one text in a table in an upload."""
    most_classes: int = Field(default=USUAL_LIMITS.most_classes, ge=2)
    """Most classes that are found in a validation set, where a meter declares none."""
    disk_bytes_per_meter: int = Field(default=20 << 30, ge=0)
    """Most bytes of validation sets, stored submissions and waiting models of a meter; 0: any."""
    disk_bytes_per_user: int = Field(default=100 << 30, ge=0)
    """Most bytes of unfinished uploads of one user; 0: any."""
    free_disk_bytes: int = Field(default=1 << 30, ge=0)
    """Bytes of the disk that stay free: what would take them is refused."""
    login_days: int = Field(default=7, ge=1)
    """Days until a token from a login expires."""
    requests_per_second: float = Field(default=100.0, ge=0)
    """Requests per second of one user; 0: no limit."""
    burst: int = Field(default=500, ge=1)
    """Requests of one user at once."""
    logins_per_minute: float = Field(default=20.0, ge=0)
    """Logins per minute from one address; 0: no limit."""
    plans_per_minute: float = Field(default=60.0, ge=0)
    """Requests per minute to the planner from one address; 0: no limit."""
    header_seconds: int = Field(default=10, ge=1)
    """Longest wait for the headers of a request."""
    metrics_public: bool = False
    """Show /metrics to everyone, without the latencies, so that the alert MeterSlow cannot fire."""
    badges: bool = False
    """Show everyone the last answer of a meter at /badge/METER.svg, and .json for shields.io."""
    model_minutes: int = Field(default=10, ge=1, le=1440)
    """Longest run of a model on the validation set, in minutes."""
    executor: str = "inline"
    """Where models run on hidden rows: inline, processes[:N] or dask:tls://HOST:PORT."""
    log_level: Level = "info"
    """Minimum log level: debug, info, warning, error."""
    shutdown_seconds: int = Field(default=30, ge=1)
    """Longest wait for accepted requests when stopping."""
    allowed_loss: tuple[str, ...] = Field(default=(), strict=False)
    """Functions that meters may have as loss, each MODULE:FUNCTION: the server runs them."""
    notify: str = Field(default="", repr=False)
    """Where to say what happens at meters: addresses as Apprise writes them; empty: nowhere."""
    smtp_host: str = ""
    """Mail server; empty: no e-mail is sent."""
    smtp_port: int = Field(default=587, ge=1, le=65535)
    """Port of the mail server."""
    smtp_user: str = ""
    """Account on the mail server; empty: none."""
    smtp_password: str = Field(default="", repr=False)
    """Password of that account."""
    smtp_from: str = ""
    """Sender of e-mail."""
    smtp_starttls: bool = True
    """Encrypt the connection to the mail server."""
    oidc_issuer: str = ""
    """OpenID provider by which people sign in, such as https://login.example.org; empty: none."""
    oidc_name: str = "your organization"
    """What the sign-in page calls the provider."""
    oidc_client_id: str = ""
    """Name of this server at the provider."""
    oidc_client_secret: str = Field(default="", repr=False)
    """Secret of this server at the provider; empty: it has none there."""
    oidc_groups_claim: str = "groups"
    """Claim of the ID token that lists somebody's groups."""
    oidc_seat: tuple[str, ...] = Field(default=(), strict=False)
    """Seat of a group: GROUP=ROLE:METER[:TEAM], or GROUP=admin; repeatable."""
    database_file: Path | None = Field(default=None, strict=False)
    """File with the address of the database, in place of database."""
    smtp_password_file: Path | None = Field(default=None, strict=False)
    """File with the password on the mail server, in place of smtp_password."""
    oidc_client_secret_file: Path | None = Field(default=None, strict=False)
    """File with the secret at the provider, in place of oidc_client_secret."""

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: Any, init_settings: Source, *_: Any, **__: Any
    ) -> tuple[Source, ...]:
        """Take what is passed and nothing else; `read_settings` puts the sources together."""
        return (init_settings,)

    @model_validator(mode="wrap")
    @classmethod
    def _in_one_line(cls, data: dict[str, Any], build: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return build(data)
        except ValidationError as error:
            first = error.errors()[0]
        # Raised out here, the error does not carry pydantic's along, which shows secrets.
        name = str(first["loc"][0])
        if name not in cls.model_fields:
            raise InvalidInput(f"{name[:80]!r} is no setting: see meter serve --help")
        bound = _BOUNDS.get(first["type"], "").format(**first.get("ctx", {}))
        raise _refused(name, cls.model_fields[name], data[name], bound)

    @model_validator(mode="before")
    @classmethod
    def _secrets_from_files(cls, data: dict[str, Any]) -> dict[str, Any]:
        return data | {name: _secret(data, name) for name in _SECRETS if data.get(f"{name}_file")}

    @field_validator(
        *("folder", "key", "tls_certificate", "tls_key"),
        *("database_file", "smtp_password_file", "oidc_client_secret_file"),
        mode="before",
    )
    @classmethod
    def _empty_is_default(cls, value: object, info: ValidationInfo) -> object:
        # A variable that is set to nothing, as compose files do, names no file.
        return cls.model_fields[str(info.field_name)].default if value == "" else value

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        for address in self.trusted_proxy:
            try:
                ipaddress.ip_network(address)
            except ValueError:
                allowed = "an address or a network, such as 10.0.0.0/8"
                raise invalid("trusted_proxy", address[:80], allowed) from None
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise invalid("tls_certificate and tls_key", "one of them", "both or neither")
        if self.public_url and not re.fullmatch(r"https?://[^/\s?#]+", self.public_url):
            raise invalid("public_url", self.public_url[:80], "such as https://meter.example.org")
        if self.smtp_host and not self.smtp_from:
            raise invalid("smtp_from", "", "the sender of mails is needed with smtp_host")
        open_executor(self.executor)  # refuses a wrong name
        self._check_provider()
        return self

    def _check_provider(self) -> None:
        for text in self.oidc_seat:
            GroupSeat.parse(text)
        if not self.oidc_issuer:
            if self.oidc_client_id or self.oidc_seat:
                raise invalid("oidc_issuer", "", "the provider is needed with other oidc_ settings")
            return
        if not is_secure(self.oidc_issuer) or urlsplit(self.oidc_issuer).query:
            allowed = "such as https://login.example.org; http only on this machine"
            raise invalid("oidc_issuer", self.oidc_issuer[:80], allowed)
        for name in ("oidc_client_id", "public_url"):
            if not getattr(self, name):
                raise invalid(name, "", "needed with oidc_issuer: the provider has to know it")

    @property
    def exposed(self) -> bool:
        """Whether other machines reach it without a proxy."""
        return not (is_loopback(self.host) or self.trusted_proxy)

    @property
    def in_the_clear(self) -> bool:
        """Whether tokens travel unencrypted: to other machines, with neither TLS nor a proxy."""
        return self.exposed and not self.tls_key

    @property
    def room(self) -> Room:
        """What meters and users may take of the disk."""
        limits = (self.disk_bytes_per_meter, self.disk_bytes_per_user, self.free_disk_bytes)
        return Room(*limits)

    @property
    def table_limits(self) -> TableLimits:
        """What tables in uploads may hold."""
        return TableLimits(**{each.name: getattr(self, each.name) for each in fields(TableLimits)})

    @property
    def database_url(self) -> str:
        """The address of the database in use."""
        if self.database:
            return self.database
        # Here, as commands that only read settings need not wait for SQLAlchemy to load.
        from easeml_meter.storage.store import sqlite_url

        return sqlite_url(self.folder / "meter.db")

    @property
    def files_place(self) -> str:
        """Where sealed files lie."""
        return self.files or str(self.folder / "files")

    @property
    def key_file(self) -> Path:
        """Where the server's secret key lies."""
        return self.key or self.folder / "server.key"


_SECRETS = ("database", "smtp_password", "oidc_client_secret")
"""Settings that a file of their own may hold, as containers and systemd hand secrets over."""
_LONGEST_SECRET = 10_000


def _secret(data: Mapping[str, Any], name: str) -> str:
    """Read a secret from its file; the end of its line does not belong to it."""
    file = data[f"{name}_file"]
    if data.get(name):
        raise invalid(f"{name}_file", str(file)[:80], f"it or {name}, not both")
    try:
        with Path(file).open(encoding="utf-8") as stream:
            text = stream.read(_LONGEST_SECRET + 1)
    except (OSError, TypeError, ValueError) as error:
        # Not the error's own text: that of a decoding error shows the bytes of the secret.
        reason = getattr(error, "strerror", None) or "no text"
        raise InvalidInput(f"{name}_file: {str(file)[:80]!r} cannot be read ({reason})") from None
    secret = text.rstrip("\r\n")
    if not secret or len(text) > _LONGEST_SECRET or "\n" in secret:
        raise InvalidInput(f"{name}_file: {str(file)[:80]!r} holds no secret: one line needed")
    return secret


def is_secure(address: str) -> bool:
    """Whether nobody in between can read or change what an address answers."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    return bool(parts.scheme == "https" and host) or (parts.scheme == "http" and is_loopback(host))


_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_BOUNDS = {"greater_than_equal": "at least {ge:g}", "less_than_equal": "at most {le:g}"}
_KINDS: dict[Any, tuple[Callable[[str], Any], str]] = {
    int: (int, "a whole number"),
    float: (float, "a number"),
    bool: (lambda text: _TRUTH[text.lower()], "true or false"),
    str: (str, "a text"),
    Path: (str, "a path"),
    Path | None: (str, "a path"),
    tuple[str, ...]: (
        lambda text: [*filter(None, map(str.strip, text.split(",")))],
        "a list of texts",
    ),
    Level: (str, f"one of {', '.join(get_args(Level))}"),
}
"""How a value of each type is read from a variable, and what is said if it is another one."""


def _refused(name: str, setting: FieldInfo, value: object, bound: str = "") -> InvalidInput:
    shown = str(value)[:80] if setting.repr else "(hidden)"
    return invalid(name, shown, bound or _KINDS[setting.annotation][1])


class _Environment(EnvSettingsSource):
    """Variables named in capitals; several values in one are separated by commas."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        super().__init__(Settings)
        self._environment = environment

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self._environment.get(ENVIRONMENT + field_name.upper()), field_name, False

    def prepare_field_value(self, field_name: str, field: FieldInfo, value: Any, _: bool) -> Any:
        if value is None:
            return None
        try:
            return _KINDS[field.annotation][0](value)
        except (ValueError, KeyError):
            raise _refused(ENVIRONMENT + field_name.upper(), field, value) from None


def read_settings(
    file: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]
) -> Settings:
    """Lay flags over the environment over a file; a flag of None was not given.

    Raises:
        InvalidInput: a setting is wrong, or submitted commands could read a file of the server.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    written = {} if file is None else _file_values(file)
    found = Settings(**(written | _Environment(environment)() | given))
    # The sandbox shows submitted commands some folders of this machine: no secret lies in one.
    check_out_of_sight(
        config=file,
        folder=found.folder,
        key=found.key_file,
        files=_on_disk(found.files_place),
        database=_on_disk(found.database) if found.database else None,
        tls_key=found.tls_key,
        **{f"{name}_file": getattr(found, f"{name}_file") for name in _SECRETS},
    )
    return found


def _on_disk(place: str) -> str | None:
    """Return the path that an address names, if it names one."""
    kind, _, rest = place.rpartition("://")
    return rest.removeprefix("/") if kind.startswith("sqlite") else rest if not kind else None


def _file_values(file: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read ({error.strerror or error})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file}: not a valid TOML file: {error}") from error
    for name in data:
        if name not in Settings.model_fields:
            raise InvalidInput(f"{file}: {name[:80]!r} is no setting: see meter serve --help")
    return data
