"""A tool server for Toolwright's `http` executor, with nothing but Python's standard library (3.8 or later).

    TOOL_SECRET=<signingSecret of the answer to POST /tools> python3 verify-signature.py 8787

Answers the tool "reverse": { "text": "abc" } -> "cba".
"""

import hashlib
import hmac
import json
import os
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ["TOOL_SECRET"].encode()
MAX_AGE_MS = 5 * 60_000
MAX_BODY_BYTES = 8 * 1024 * 1024


def is_signed(header: str, body: bytes) -> bool:
    """Whether the header `t=<epoch ms>,v1=<hex>` signs `<epoch ms>.<body>`, and not too long ago."""
    match = re.fullmatch(r"t=([0-9]{1,15}),v1=([0-9a-f]{64})", header or "")
    if match is None or abs(time.time() * 1000 - int(match[1])) > MAX_AGE_MS:
        return False
    expected = hmac.new(SECRET, match[1].encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(match[2], expected)


def reverse(arguments: dict) -> dict:
    if arguments["text"] == "":
        return {"error": {"message": "there is nothing to reverse", "code": "EMPTY_TEXT"}}
    return {"value": arguments["text"][::-1]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length", "0"))
        if size > MAX_BODY_BYTES:
            self.close_connection = True
            return self.answer(413, {"error": {"message": "the body is too large"}})
        body = self.rfile.read(size)
        if not is_signed(self.headers.get("X-Toolwright-Signature"), body):
            return self.answer(401, {"error": {"message": "the signature is not valid", "code": "BAD_SIGNATURE"}})
        # The caller has given up by then, so work that cannot be done in time need not begin.
        if time.time() * 1000 > int(self.headers.get("X-Toolwright-Deadline", "0")):
            return self.answer(504, {"error": {"message": "too late"}})
        try:
            self.answer(200, reverse(json.loads(body)["arguments"]))
        except Exception as error:
            self.answer(500, {"error": {"message": str(error)}})

    def answer(self, status: int, value: dict) -> None:
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8787), Handler)
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
