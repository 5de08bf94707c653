"""A stand-in for Terraform's providers: it has their schemas and plans what it is asked for, and can make nothing.

Terraform starts it as a program and speaks to it over gRPC (its plugin protocol 6). `python stand_in_provider.py FILE`:
the JSON file holds the schemas of the provider, of its resources, data sources and ephemeral resources. It runs in the
environment of `make deploy-checks`, without the rest of this repository.
"""

from __future__ import annotations

import base64
import datetime
import json
import sys
import tempfile
import threading
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import msgpack
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

UNKNOWN = msgpack.ExtType(0, b"\x00")
_LIST, _BYTES = 2, 2  # the nesting of blocks; the wire type of what has a length


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: bytes | str | int) -> bytes:
    """A field of a message in the wire format of protocol buffers."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | _BYTES) + varint(len(data)) + data


def fields(message: bytes) -> dict[int, Any]:
    """The last value of each field: bytes or a number."""
    read: dict[int, Any] = {}
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = number()
        value: Any = number()
        if key & 7 == _BYTES:
            value, at = message[at : at + value], at + value
        read[key >> 3] = value
    return read


def value_of(message: bytes) -> Any:
    return msgpack.unpackb(fields(message)[1], raw=False, strict_map_key=False)


def dynamic(value: Any) -> bytes:
    return field(1, msgpack.packb(value, use_bin_type=True))


def block_message(block: dict[str, Any]) -> bytes:
    out = field(1, 0)
    for name, attribute in block["attributes"].items():
        flags = {4: "required", 5: "optional", 6: "computed", 7: "sensitive", 11: "write_only"}
        said = b"".join(field(number, 1) for number, flag in flags.items() if attribute.get(flag))
        out += field(2, field(1, name) + field(2, json.dumps(attribute["type"])) + said)
    for name, nested in block["blocks"].items():
        most = field(5, nested["max"]) if nested["max"] else b""
        inner = field(1, name) + field(2, block_message(nested["block"])) + field(3, _LIST) + field(4, nested["min"])
        out += field(3, inner + most)
    return out


def schema_message(block: dict[str, Any]) -> bytes:
    return field(2, block_message(block))


def planned(block: dict[str, Any], value: dict[str, Any] | None) -> dict[str, Any] | None:
    """Plans a block: what Google decides is not known yet, and write-only values are left out."""
    if value is None:
        return None
    for name, attribute in block["attributes"].items():
        if attribute.get("write_only"):
            value[name] = None
        elif attribute.get("computed") and value.get(name) is None:
            value[name] = UNKNOWN
    for name, nested in block["blocks"].items():
        if isinstance(value.get(name), list):
            value[name] = [planned(nested["block"], one) for one in value[name]]
    return value


class StandIn:
    """The calls that Terraform makes for a plan."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema

    def GetProviderSchema(self, request: bytes, _: Any) -> bytes:
        out = field(1, schema_message(self.schema["provider"]))
        for number, kind in ((2, "resources"), (3, "data"), (8, "ephemeral")):
            for name, block in self.schema[kind].items():
                out += field(number, field(1, name) + field(2, schema_message(block)))
        return out

    def nothing(self, request: bytes, _: Any) -> bytes:
        """Every check by the schema is Terraform's own; the provider finds nothing wrong."""
        return b""

    def PlanResourceChange(self, request: bytes, _: Any) -> bytes:
        given = fields(request)
        block = self.schema["resources"][given[1].decode()]
        return field(1, dynamic(planned(block, value_of(given[3]))))

    def ReadDataSource(self, request: bytes, _: Any) -> bytes:
        given = fields(request)
        name, value = given[1].decode(), value_of(given[2])
        return field(1, dynamic({**value, **self.schema["read"].get(name, {})}))

    def OpenEphemeralResource(self, request: bytes, _: Any) -> bytes:
        given = fields(request)
        name, value = given[1].decode(), value_of(given[2])
        return field(3, dynamic({**value, **self.schema["read"].get(name, {})}))


CHECKED = ("Provider", "Resource", "DataResource", "EphemeralResource")
EMPTY = (*(f"Validate{kind}Config" for kind in CHECKED), "ConfigureProvider", "CloseEphemeralResource", "StopProvider")


def certificate() -> tuple[bytes, bytes, str]:
    """A key and its certificate as PEM, and the certificate as Terraform's handshake has it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))
        .not_valid_after(datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, der = serialization.Encoding.PEM, serialization.Encoding.DER
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return secret, made.public_bytes(pem), base64.b64encode(made.public_bytes(der)).decode().rstrip("=")


def main() -> None:
    stand_in = StandIn(json.loads(Path(sys.argv[1]).read_text()))
    ended = threading.Event()

    def shutdown(request: bytes, _: Any) -> bytes:
        ended.set()
        return b""

    calls = {name: getattr(stand_in, name) for name in dir(stand_in) if name[0].isupper()}
    calls |= dict.fromkeys(EMPTY, stand_in.nothing)
    server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", -1)])
    for service, methods in (("tfplugin6.Provider", calls), ("plugin.GRPCController", {"Shutdown": shutdown})):
        handlers = {name: grpc.unary_unary_rpc_method_handler(call) for name, call in methods.items()}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    key, pem, shown = certificate()
    with tempfile.TemporaryDirectory() as folder:
        place = f"{folder}/socket"
        # Terraform offers a certificate of its own, on a curve that gRPC's TLS does not take; the socket is private.
        server.add_secure_port(f"unix:{place}", grpc.ssl_server_credentials([(key, pem)]))
        server.start()
        print(f"1|6|unix|{place}|grpc|{shown}", flush=True)
        ended.wait()
        server.stop(grace=1).wait()


if __name__ == "__main__":
    main()
