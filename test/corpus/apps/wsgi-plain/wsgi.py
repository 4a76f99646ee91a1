"""The first example of PEP 3333: an application without a framework."""

HELLO_WORLD = b"Hello world!\n"


def application(environ, start_response):
    status = "200 OK"
    response_headers = [("Content-type", "text/plain")]
    start_response(status, response_headers)
    return [HELLO_WORLD]
