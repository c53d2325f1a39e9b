"""Settings of a server: from a file, the environment or flags, the later ones winning."""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from easeml_meter.errors import InvalidInput, invalid

ENVIRONMENT = "METER_SERVER_"
LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True)
class Settings:
    """How a server runs."""

    host: str = field(default="127.0.0.1", metadata={"help": "Address to listen at."})
    port: int = field(default=8080, metadata={"help": "Port to listen at; 0: any free one."})
    folder: Path = field(
        default=Path("meter-server"),
        metadata={"help": "Folder of the key and, unless set otherwise, database and files."},
    )
    database: str = field(
        default="",
        repr=False,
        metadata={"help": "Address of the database; empty: SQLite in the folder."},
    )
    files: str = field(
        default="",
        repr=False,
        metadata={"help": "Folder or fsspec URL of sealed files; empty: in the folder."},
    )
    key: Path | None = field(
        default=None,
        metadata={"help": "The server's secret key, made if new; empty: in the folder."},
    )
    tls_certificate: Path | None = field(
        default=None, metadata={"help": "Certificate chain (PEM), to serve https."}
    )
    tls_key: Path | None = field(
        default=None, metadata={"help": "Private key of the certificate (PEM)."}
    )
    trusted_proxy: tuple[str, ...] = field(
        default=(),
        metadata={
            "help": "Address or network of a proxy whose forwarded headers count; repeatable."
        },
    )
    allowed_host: tuple[str, ...] = field(
        default=(), metadata={"help": "Host name that requests may be for; repeatable; empty: any."}
    )
    largest_body: int = field(
        default=64 << 20, metadata={"help": "Bytes of one submission or validation set."}
    )
    login_days: int = field(
        default=7, metadata={"help": "Days until a token from a login expires."}
    )
    requests_per_second: float = field(
        default=100.0, metadata={"help": "Requests a second of one user; 0: any number."}
    )
    burst: int = field(default=500, metadata={"help": "Requests of one user at once."})
    logins_per_minute: float = field(
        default=20.0, metadata={"help": "Logins a minute from one address; 0: any number."}
    )
    plans_per_minute: float = field(
        default=60.0,
        metadata={"help": "Questions a minute to the planner from one address; 0: any number."},
    )
    metrics_public: bool = field(
        default=False,
        metadata={"help": "Show /metrics to everyone, not only to this machine and to admins."},
    )
    badges: bool = field(
        default=False,
        metadata={"help": "Show everyone the last signal of a meter at /badge/METER.svg."},
    )
    log_level: str = field(
        default="info", metadata={"help": f"Least level that is logged: {', '.join(LEVELS)}."}
    )
    shutdown_seconds: int = field(
        default=30, metadata={"help": "Longest wait for accepted requests when stopping."}
    )
    private_webhooks: bool = field(
        default=False,
        metadata={"help": "Let webhooks go to addresses of this machine and of private networks."},
    )
    smtp_host: str = field(default="", metadata={"help": "Mail server; empty: no mail is sent."})
    smtp_port: int = field(default=587, metadata={"help": "Port of the mail server."})
    smtp_user: str = field(
        default="", metadata={"help": "Account at the mail server; empty: none."}
    )
    smtp_password: str = field(
        default="", repr=False, metadata={"help": "Password of that account."}
    )
    smtp_from: str = field(default="", metadata={"help": "Sender of mails."})
    smtp_starttls: bool = field(
        default=True, metadata={"help": "Encrypt the connection to the mail server."}
    )

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if not getattr(self, name) >= least:  # which is not a number fails, too
                raise invalid(name, getattr(self, name), f"at least {least}")
        for name in ("port", "smtp_port"):
            if getattr(self, name) > 65535:
                raise invalid(name, getattr(self, name), "at most 65535")
        if self.log_level not in LEVELS:
            raise invalid("log_level", self.log_level, f"one of {', '.join(LEVELS)}")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise invalid("tls_certificate and tls_key", "one of them", "both or neither")
        for address in self.trusted_proxy:
            try:
                ipaddress.ip_network(address)
            except ValueError:
                raise invalid(
                    "trusted_proxy", address[:80], "an address or a network, such as 10.0.0.0/8"
                ) from None
        if self.smtp_host and not self.smtp_from:
            raise invalid("smtp_from", "", "the sender of mails is needed with smtp_host")

    @property
    def database_url(self) -> str:
        """The address of the database in use."""
        return self.database or f"sqlite:///{self.folder / 'meter.db'}"

    @property
    def files_place(self) -> str:
        """Where sealed files lie."""
        return self.files or str(self.folder / "files")

    @property
    def key_file(self) -> Path:
        """Where the server's secret key lies."""
        return self.key or self.folder / "server.key"


_LEAST: dict[str, float] = {
    "port": 0,
    "smtp_port": 1,
    "largest_body": 1,
    "login_days": 1,
    "requests_per_second": 0,
    "burst": 1,
    "logins_per_minute": 0,
    "plans_per_minute": 0,
    "shutdown_seconds": 1,
}


def known() -> dict[str, Field[Any]]:
    """Give the settings by name."""
    return {each.name: each for each in fields(Settings)}


def read_settings(
    file: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]
) -> Settings:
    """Lay flags over the environment over a file; a flag of None was not given."""
    values = _file_values(file) if file is not None else {}
    for name, setting in known().items():
        text = environment.get(f"{ENVIRONMENT}{name.upper()}")
        if text is not None:
            values[name] = _from_text(setting, text)
    values |= {name: _checked(known()[name], v) for name, v in flags.items() if v is not None}
    return Settings(**values)


def _file_values(file: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read ({error.strerror or error})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file}: not a valid TOML file: {error}") from error
    settings = known()
    for name in data:
        if name not in settings:
            raise InvalidInput(f"{file}: {name[:80]!r} is no setting: see meter serve --help")
    return {name: _checked(settings[name], value) for name, value in data.items()}


def _from_text(setting: Field[Any], text: str) -> Any:
    """Read a value of the environment; several are set apart by commas."""
    kind = str(setting.type)
    try:
        if kind == "int":
            return int(text)
        if kind == "float":
            return float(text)
        if kind == "bool":
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
    except (ValueError, KeyError):
        shown = "(hidden)" if not setting.repr else text[:80]
        name = f"{ENVIRONMENT}{setting.name.upper()}"
        raise invalid(name, shown, _ALLOWED[kind]) from None
    if kind == "tuple[str, ...]":
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return _checked(setting, text)


def _checked(setting: Field[Any], value: Any) -> Any:
    """Check a value of a file or a flag against the setting's type."""
    kind = str(setting.type)
    right: object
    match kind:
        case "int":
            right = isinstance(value, int) and not isinstance(value, bool)
        case "float":
            right = isinstance(value, int | float) and not isinstance(value, bool)
        case "bool":
            right = isinstance(value, bool)
        case "tuple[str, ...]":
            right = isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)
            value = tuple(value) if right else value
        case "Path" | "Path | None":
            right = isinstance(value, str | Path)
            value = (Path(value) if str(value) else setting.default) if right else value
        case _:
            right = isinstance(value, str)
    if not right:
        shown = "(hidden)" if not setting.repr else str(value)[:80]
        raise invalid(setting.name, shown, _ALLOWED[kind])
    return value


_ALLOWED = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "Path": "a path",
    "Path | None": "a path",
    "tuple[str, ...]": "a list of texts",
}
