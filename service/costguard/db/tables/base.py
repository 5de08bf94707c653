"""The metadata and column types that all tables share."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, Column, ColumnElement, Constraint, Integer, MetaData, String, Table, text
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite gives rowids only to a column of type INTEGER.
Id = BigInteger().with_variant(Integer, "sqlite")
Json = JSON().with_variant(JSONB, "postgresql")
JsonOrNull = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def table(name: str, *parts: Column[Any] | Constraint, **options: Any) -> Table:
    return Table(name, metadata, *parts, **options)


def key_columns(*names: str) -> list[Column[Any]]:
    """Texts that together are the primary key, or a part of it."""
    return [Column(name, String, primary_key=True) for name in names]


def only_where(condition: str | ColumnElement[bool]) -> dict[str, Any]:
    """Makes the arguments of a partial index, which has only the rows that meet a condition, on both databases."""
    clause = text(condition) if isinstance(condition, str) else condition
    return {"sqlite_where": clause, "postgresql_where": clause}


def shape_columns() -> list[Column[Any]]:
    """Makes columns for the parts of a VM, and its provisioning model."""
    return [
        Column("machine_type", String, nullable=False),
        Column("vcpus", Integer, nullable=False),
        Column("memory_mib", Integer, nullable=False),
        Column("gpu_type", String),
        Column("gpu_count", Integer, nullable=False),
        Column("local_ssd_gib", Integer, nullable=False),
        Column("provisioning_model", String, nullable=False),
    ]


def attribution_columns() -> list[Column[Any]]:
    """Makes columns for the attribution of a span."""
    return [Column(name, String, nullable=False) for name in ("preset", "owner", "job")]


def amount_columns() -> list[Column[Any]]:
    """Nano-dollars of a day, and the seconds of running VMs."""
    return [
        Column(name, BigInteger, nullable=False) for name in ("machine_nanos", "gpu_nanos", "storage_nanos", "seconds")
    ]
