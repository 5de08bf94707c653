"""The schemas of Terraform's google provider, from the bindings that CDK Terrain generates from the provider itself."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

Block = dict[str, Any]
_DOCS = re.compile(r"\{@link \S+#(\w+)[\s}]")
# What every construct of CDK Terrain has; no argument of the provider's.
_META = {
    *("connection", "count", "dependsOn", "forEach", "lifecycle", "provider", "provisioners", "timeouts"),
    *("id", "alias"),
}
_RANDOM_PASSWORD: Block = {
    "attributes": {
        "length": {"type": "number", "required": True},
        "special": {"type": "bool", "optional": True},
        "result": {"type": "string", "computed": True, "sensitive": True},
    },
    "blocks": {},
}


class Bindings:
    """The types of the Python package cdktn-provider-google, which is installed in `environment`."""

    def __init__(self, environment: Path) -> None:
        (self._archive,) = environment.glob("lib/python*/site-packages/cdktn_provider_google/_jsii/*.tgz")

    @property
    def version(self) -> str:
        """The provider's version, such as 8.7.0."""
        links = self._types["@cdktn/provider-google.computeInstance.ComputeInstanceConfig"]["properties"][0]["docs"]
        match = re.search(r"hashicorp/google/([\d.]+)/docs", links["remarks"])
        assert match
        return match[1]

    def schema(self, resources: Iterable[str], data: Iterable[str]) -> dict[str, Any]:
        """Collects what the stand-in needs. Raises KeyError for a resource that the provider does not have."""
        return {
            "provider": self._block("@cdktn/provider-google.provider.GoogleProviderConfig", None),
            "resources": {name: self._of(name.removeprefix("google_")) for name in sorted(set(resources))},
            "data": {name: self._of(name.replace("google_", "data_google_")) for name in sorted(set(data))},
            "ephemeral": {},
            "read": {"google_project": {"number": "123456789012"}},
        }

    @property
    def _types(self) -> Mapping[str, Any]:
        return _types(self._archive)

    def _of(self, name: str) -> Block:
        config = self._configs[name.replace("_", "")]
        return self._block(config, config.removesuffix("Config"))

    @property
    def _configs(self) -> dict[str, str]:
        return {
            name.rpartition(".")[2].removesuffix("Config").lower(): name
            for name in self._types
            if name.endswith("Config")
        }

    def _block(self, struct: str, resource: str | None) -> Block:
        attributes: dict[str, Any] = {}
        blocks: dict[str, Any] = {}
        for prop in self._types[struct].get("properties", []):
            if prop["name"] in _META:
                continue
            name, inner = _name(prop), _struct(prop["type"])
            if inner and prop["docs"].get("summary", "").endswith(" block."):
                most = 0 if _is_many(prop["type"]) else 1
                blocks[name] = {"block": self._block(inner, None), "min": int(not prop.get("optional")), "max": most}
            else:
                attributes[name] = _attribute(name, prop)
        if resource:
            for prop in self._types[resource].get("properties", []):
                name = _name(prop)
                plain = prop["name"]
                if (
                    plain in _META - {"id"}
                    or plain.endswith("Input")
                    or prop.get("static")
                    or name in {**attributes, **blocks}
                ):
                    continue
                attributes[name] = {
                    "type": "dynamic" if plain != "id" and _type(prop["type"]) == "dynamic" else _type(prop["type"]),
                    "computed": True,
                }
        return {"attributes": attributes, "blocks": blocks}


RANDOM = {
    "provider": {"attributes": {}, "blocks": {}},
    "resources": {},
    "data": {},
    "ephemeral": {"random_password": _RANDOM_PASSWORD},
    "read": {"random_password": {"result": "not-random"}},
}


@cache
def _types(archive: Path) -> Mapping[str, Any]:
    with tarfile.open(archive) as opened:
        file = opened.extractfile("package/.jsii")
        assert file
        types: Mapping[str, Any] = json.load(file)["types"]
    return types


def _name(prop: Mapping[str, Any]) -> str:
    """The provider's own name of an argument, which the documentation links to."""
    link = _DOCS.search(prop.get("docs", {}).get("remarks", "") + " ")
    return link[1] if link else re.sub(r"(?<!^)([A-Z])", lambda match: "_" + match[1].lower(), prop["name"])


def _attribute(name: str, prop: Mapping[str, Any]) -> dict[str, Any]:
    if not prop.get("optional"):
        return {"type": _type(prop["type"]), "required": True}
    if name.endswith("_wo"):
        return {"type": _type(prop["type"]), "optional": True, "write_only": True, "sensitive": True}
    return {"type": _type(prop["type"]), "optional": True, "computed": True}


def _struct(kind: Mapping[str, Any]) -> str | None:
    if "fqn" in kind:
        return str(kind["fqn"]) if str(kind["fqn"]).startswith("@cdktn/") else None
    if "collection" in kind:
        return _struct(kind["collection"]["elementtype"])
    structs = (_struct(one) for one in kind.get("union", {}).get("types", []))
    return next((one for one in structs if one), None)


def _is_many(kind: Mapping[str, Any]) -> bool:
    return "collection" in kind or any(_is_many(one) for one in kind.get("union", {}).get("types", []))


def _type(kind: Mapping[str, Any]) -> Any:
    """The type as Terraform's protocol writes it; structures of Google's answers may be anything."""
    if kind.get("primitive") in ("string", "number"):
        return kind["primitive"]
    if "collection" in kind:
        inner = _type(kind["collection"]["elementtype"])
        return ["map" if kind["collection"]["kind"] == "map" else "list", inner] if inner != "dynamic" else "dynamic"
    kinds = kind.get("union", {}).get("types", [])
    if any(one.get("primitive") == "boolean" for one in kinds) or kind.get("fqn") == "cdktn.IResolvable":
        return "bool"
    return "dynamic"
