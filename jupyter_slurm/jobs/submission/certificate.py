"""The certificate of a job with Dask, made of the job's key. PURE.

Dask checks who connects by TLS alone, and an image need not have a tool that makes certificates. So
the certificate travels with the job. It signs itself, and only those accept it who have it.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac


def of_key(key: bytes) -> tuple[bytes, bytes]:
    """Return the certificate and its private key, both PEM: always the same for the same `key`."""
    from cryptography import x509  # noqa: PLC0415 - 40 ms, for those who use Dask
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415

    secret = hmac.new(key, b"certificate", hashlib.sha256).digest()
    private = ed25519.Ed25519PrivateKey.from_private_bytes(secret)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "jupyter-slurm job")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(1)
        # Nodes whose clocks are wrong, and jobs that wait for long, have no part in this.
        .not_valid_before(datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC))
        .not_valid_after(datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(private, None)
    )
    return made.public_bytes(serialization.Encoding.PEM), private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
