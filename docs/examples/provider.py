"""A provider of two tools, which runs them in this process: see ../providers.md.

    TOOLWRIGHT_TOKEN=... python3 provider.py

Python 3.9 or later, and nothing but its standard library.
"""

import base64
import hashlib
import json
import os
import random
import socket
import ssl
import struct
import sys
import threading
import time
from urllib.parse import urlsplit

URL = urlsplit(os.environ.get("TOOLWRIGHT_URL", "http://127.0.0.1:7410"))
TOKEN = os.environ.get("TOOLWRIGHT_TOKEN", "")
KEPT_CALLS = 1000
PROVIDER_ID = os.environ.get("PROVIDER_ID", "example-python")


def word_count(arguments, call):
    return len(arguments["text"].split())


def countdown(arguments, call):
    for left in range(arguments["from"], 0, -1):
        call.progress(f"{left}\n")
        if call.cancelled.wait(arguments.get("stepMs", 1000) / 1000):
            raise RuntimeError("cancelled")
    return "lift-off"


TOOLS = {
    "word_count": {
        "run": word_count,
        "description": "Counts the words of a text.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        "output": {"schema": {"type": "integer"}},
        "concurrency": "parallel",
        "idempotent": True,
    },
    "countdown": {
        "run": countdown,
        "description": "Counts down, a number a second.",
        "parameters": {
            "type": "object",
            "properties": {
                "from": {"type": "integer", "minimum": 0, "maximum": 60},
                "stepMs": {"type": "integer", "minimum": 0},
            },
            "required": ["from"],
        },
        "concurrency": "parallel",
    },
}


class Closed(Exception):
    """The socket is gone; `code` is that of the close frame, if there was one."""

    def __init__(self, code=None):
        super().__init__(f"closed with {code}")
        self.code = code


class WebSocket:
    """As much of RFC 6455 as a client needs: text, pings and the close; what it sends is one frame each."""

    def __init__(self):
        port = URL.port or (443 if URL.scheme == "https" else 80)
        self.raw = socket.create_connection((URL.hostname, port), timeout=30)
        if URL.scheme == "https":
            self.raw = ssl.create_default_context().wrap_socket(self.raw, server_hostname=URL.hostname)
        self.file = self.raw.makefile("rb")
        self.lock = threading.Lock()
        key = base64.b64encode(os.urandom(16)).decode()
        self.raw.sendall(
            (
                f"GET /events HTTP/1.1\r\nHost: {URL.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
                f"Sec-WebSocket-Protocol: toolwright.v1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            ).encode()
        )
        status = self.file.readline().decode().strip()
        headers = {}
        while line := self.file.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        digest = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        if " 101 " not in f"{status} " or headers.get("sec-websocket-accept") != base64.b64encode(digest).decode():
            raise ConnectionError(f"no WebSocket: {status}")
        # The server pings every 20 s, so a silence of three times that is the end.
        self.raw.settimeout(60)

    def send(self, payload, opcode=1):
        mask = os.urandom(4)
        size = len(payload)
        head = struct.pack("!B", 0x80 | opcode)
        if size < 126:
            head += struct.pack("!B", 0x80 | size)
        elif size < 65536:
            head += struct.pack("!BH", 0x80 | 126, size)
        else:
            head += struct.pack("!BQ", 0x80 | 127, size)
        key = (mask * (size // 4 + 1))[:size]
        masked = (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")
        with self.lock:
            self.raw.sendall(head + mask + masked)

    def receive(self):
        """The next text. Raises Closed or OSError."""
        message = b""
        while True:
            first, second = self._read(2)
            size = second & 0x7F
            if size == 126:
                (size,) = struct.unpack("!H", self._read(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", self._read(8))
            payload = self._read(size)
            opcode = first & 0x0F
            if opcode == 8:
                code = struct.unpack("!H", payload[:2])[0] if size >= 2 else None
                try:
                    self.send(payload, 8)
                finally:
                    raise Closed(code)
            if opcode == 9:
                self.send(payload, 10)
            elif opcode in (0, 1):
                message += payload
                if first & 0x80:
                    return message.decode()

    def close(self):
        self.file.close()
        self.raw.close()

    def _read(self, size):
        data = self.file.read(size)
        if len(data) < size:
            raise Closed()
        return data


class Call:
    """A call that was begun: one that comes again is answered again and not run again."""

    def __init__(self, provider, frame):
        self.provider = provider
        self.frame = frame
        self.cancelled = threading.Event()
        self.answer = None

    def progress(self, chunk):
        self.provider.send({"type": "call/progress", "dispatchId": self.frame["dispatchId"], "chunk": chunk})

    def run(self):
        dispatch_id, name = self.frame["dispatchId"], self.frame["name"]
        print(f"run {name} {dispatch_id}", flush=True)
        answer = {"type": "call/result", "dispatchId": dispatch_id}
        try:
            if name not in TOOLS:
                raise LookupError(f"there is no tool {name} here")
            answer["value"] = TOOLS[name]["run"](self.frame["arguments"], self)
            if len(encode(answer)) > self.provider.max_frame_bytes:
                raise ValueError("the result is too large for one frame")
        except Exception as error:
            answer = {"type": "call/result", "dispatchId": dispatch_id, "error": {"message": str(error)}}
        # On whichever socket there is by now; without one, the call comes again on the next.
        self.answer = answer
        if not self.cancelled.is_set():
            self.provider.send(answer)


def encode(frame):
    return json.dumps(frame, allow_nan=False).encode()


class Provider:
    def __init__(self):
        self.socket = None
        # By dispatchId. An answer may have been lost on its way, so the last ones are kept until the server no longer asks for them.
        self.begun = {}
        self.delay = 0.0
        self.max_frame_bytes = 1024 * 1024

    def send(self, frame):
        try:
            self.socket.send(encode(frame))
        except (OSError, AttributeError):
            pass

    def handle(self, frame):
        kind = frame["type"]
        if kind == "call":
            known = self.begun.get(frame["dispatchId"])
            if known is None:
                known = self.begun[frame["dispatchId"]] = Call(self, frame)
                answered = [dispatch_id for dispatch_id, call in self.begun.items() if call.answer is not None]
                for dispatch_id in answered[: max(0, len(self.begun) - KEPT_CALLS)]:
                    del self.begun[dispatch_id]
                threading.Thread(target=known.run, daemon=True).start()
            elif known.answer is not None:
                self.send(known.answer)
        elif kind == "call/cancel":
            self.forget(frame["dispatchId"])
        elif kind == "provided":
            self.delay = 0.0
            self.max_frame_bytes = frame["maxFrameBytes"]
            print("provided", *frame["tools"], flush=True)
            # What the server no longer waits for was cancelled meanwhile, or its answer has arrived.
            for dispatch_id in set(self.begun) - set(frame["pending"]):
                self.forget(dispatch_id)
        elif kind == "provider/ended":
            sys.exit(f"ended by the server: {frame['reason']}")
        elif kind == "error":
            print(f"{frame['code']}: {frame['message']}", file=sys.stderr, flush=True)
            # A tool that is refused, and an answer that came too late, concern nothing else.
            if frame.get("id") == "provide" and "name" not in frame:
                if frame["code"] in ("FORBIDDEN", "PROVIDER_TAKEN", "UNKNOWN_SCOPE", "BAD_FRAME"):
                    sys.exit("no tool can be registered")
                raise Closed()

    def forget(self, dispatch_id):
        call = self.begun.pop(dispatch_id, None)
        if call is not None:
            call.cancelled.set()

    def connect(self):
        self.socket = WebSocket()
        try:
            tools = [
                {"name": name, **{key: value for key, value in tool.items() if key != "run"}}
                for name, tool in TOOLS.items()
            ]
            self.send({"type": "provide", "id": "provide", "providerId": PROVIDER_ID, "tools": tools})
            while True:
                self.handle(json.loads(self.socket.receive()))
        finally:
            self.socket.close()

    def serve(self):
        while True:
            try:
                self.connect()
            except Closed as closed:
                if closed.code == 4403:
                    sys.exit("the token is not good any more")
            except OSError as error:
                print(f"not connected: {error}", file=sys.stderr, flush=True)
            # Twice as long each time, up to 30 s, and never all providers at the same moment.
            self.delay = min(max(self.delay * 2, 0.25), 30)
            time.sleep(self.delay * random.uniform(0.5, 1))


if __name__ == "__main__":
    try:
        Provider().serve()
    except KeyboardInterrupt:
        pass
