"""The setting `kafka`: every default, range and meaning, once."""

from __future__ import annotations

import re
from typing import Any, Literal

import pydantic
from pydantic import Field
from typing_extensions import Self

from ..settings import Count, Texts, secret_text


class KafkaSettings(pydantic.BaseModel):
    """The setting `kafka`: which brokers a fleet of workers meets at, and how its topics are made."""

    model_config = pydantic.ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )

    bootstrap: Texts = Field(
        (),
        validate_default=True,
        description="Brokers to ask first, each as `host:port`; a list, or one text with commas.",
    )
    prefix: str = Field(
        "ingest",
        description="Begins the names of topics: `{prefix}-{env}.ingest-file-requests`.",
    )
    env: str = Field(
        "prod",
        description="Comes after it, so that a fleet for tests has topics of its own.",
    )
    partitions: Count = Field(
        48,
        description="Partitions of the topics of requests and results where we make them. There can be as many workers.",
    )
    replication: Count = Field(1, description="Copies of each partition where we make the topics.")
    create_topics: bool = Field(True, description="Make topics that are missing. With false they must be there.")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="How the brokers are spoken to."
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field("PLAIN", description="How to sign in.")
    sasl_username: str | None = Field(None, description="The user name to sign in with.")
    sasl_password: pydantic.SecretStr | None = Field(
        None, description='Its password, as `{"$env": "NAME"}` or `{"$file": "PATH"}`.'
    )
    ssl_cafile: str | None = Field(None, description="Certificates that are trusted instead of the system's, as PEM.")
    ssl_certfile: str | None = Field(None, description="A certificate to show to the brokers, as PEM.")
    ssl_keyfile: str | None = Field(None, description="Its key, as PEM.")
    ssl_key_password: pydantic.SecretStr | None = Field(None, description="The key's password, as the other one.")
    session_seconds: float = Field(
        10.0,
        ge=1,
        description="A worker that the brokers have not heard of for so long has lost its partitions to the others. Until "
        "then a dead worker's hosts are not asked.",
    )

    @pydantic.field_validator("bootstrap", mode="before")
    @classmethod
    def _list(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(each.strip() for each in value.split(","))
        return tuple(value) if isinstance(value, list) else value

    @pydantic.field_validator("bootstrap")
    @classmethod
    def _addresses(cls, value: Texts) -> Texts:
        for text in value:
            if not re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+):[0-9]{1,5}", text):
                raise ValueError("expected addresses of brokers, such as kafka.example.org:9092")
        if not value:
            raise ValueError("name at least one broker, such as kafka.example.org:9092")
        return value

    @pydantic.field_validator("prefix", "env")
    @classmethod
    def _name(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,60}", value):
            raise ValueError(f"{value!r} cannot begin a topic's name: write letters, digits, _ and -")
        return value

    @pydantic.field_validator("sasl_password", "ssl_key_password", mode="before")
    @classmethod
    def _without_secrets(cls, value: Any) -> Any:
        return None if value is None else pydantic.SecretStr(secret_text(value))

    @pydantic.field_validator("session_seconds", mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @pydantic.model_validator(mode="after")
    def _fits_together(self) -> Self:
        signs_in = self.security_protocol.startswith("SASL")
        if {self.sasl_username is not None, self.sasl_password is not None} != {signs_in}:
            raise ValueError(
                "sasl_username: sign in with sasl_username, sasl_password and security_protocol SASL_SSL "
                "or SASL_PLAINTEXT; give all three or none"
            )
        return self
