"""The head of an answer reaches the client where no body follows it, and with the body where one does."""

from support.hostile import connect


def asked(connection, method):
    connection.sendall(f"{method} /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
    return connection.recv(65536)


def test_head_and_get_on_one_connection(gateway):
    with connect(gateway.port) as connection:
        connection.settimeout(60)
        alone = asked(connection, "HEAD")
        assert alone.endswith(b"\r\n\r\n")
        assert asked(connection, "GET") == alone + b"ok\n"
        assert asked(connection, "HEAD") == alone
