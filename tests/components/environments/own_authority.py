"""A certificate that no store knows, for servers of the tests."""

import ssl
import subprocess
from pathlib import Path


def own_certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """The certificate's file, which is its own authority, and a server's context with it."""
    certificate, key = folder / "own.pem", folder / "own.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        + ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        + ["-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context
