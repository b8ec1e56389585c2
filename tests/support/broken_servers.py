"""Servers with one fault each: S3 that answers every request with one error, TLS with an unknown certificate."""

import datetime
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

from support.servers import serving


@contextmanager
def s3_error(status: int, code: str, message: str) -> Iterator[str]:
    """The URL of an S3 store that answers every request with this error, as AWS writes it."""
    body = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body.encode())

        do_HEAD = do_PUT = do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with _served(ThreadingHTTPServer(("127.0.0.1", 0), Answer)) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def tls_server(folder: Path) -> Iterator[str]:
    """The URL of a server with a certificate that it signed itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "self-signed.pem"
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    pem.write_bytes(
        certificate.public_bytes(encoding)
        + key.private_bytes(encoding, serialization.PrivateFormat.TraditionalOpenSSL, plain)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with _served(server) as port:
        yield f"https://127.0.0.1:{port}"


@contextmanager
def _served(server: ThreadingHTTPServer) -> Iterator[int]:
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    with serving(server):
        yield int(server.server_address[1])
