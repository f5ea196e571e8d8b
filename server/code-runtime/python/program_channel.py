"""The pipe between a program's process and the server, as protocol.js has it."""

import codecs
import struct
import threading

# A program may replace them in their module.
from os import read, write

from program_values import quote


def escape_surrogates(error):
    """Strings may hold lone surrogates, which UTF-8 has no bytes for, but JSON has."""
    return "".join(f"\\u{ord(unit):04x}" for unit in error.object[error.start : error.end]).encode(), error.end


codecs.register_error("json-escape", escape_surrogates)


class Channel:
    """Descriptor 3: frames, each behind its length in four bytes. Meters the output before it leaves."""

    def __init__(self, limit):
        self.room = limit - 1
        self.is_closed = False
        self.lock = threading.Lock()

    def post(self, frame):
        data = frame.encode("utf-8", "json-escape")
        with self.lock:
            if self.is_closed:
                return
            rest = memoryview(struct.pack(">I", len(data)) + data)
            while rest:
                rest = rest[write(3, rest) :]

    def finish(self, frame):
        self.post(frame)
        self.is_closed = True

    def log(self, text):
        if self.is_closed:
            return
        is_over = len(text) > self.room
        encoded = quote(text[: self.room + 1] if is_over else text)
        self.room -= len(encoded.encode("utf-8", "json-escape")) + 1
        self.post(f'["log",{encoded}]')
        if is_over or self.room < 0:
            self.exceed()

    def exceed(self):
        self.finish('["failed","output-limit",""]')

    def done(self, text):
        if text is None:
            self.finish('["done"]')
        elif len(text) > self.room:
            self.exceed()
        else:
            self.finish('["done"]\n' + text)

    def fail(self, kind, message):
        if len(message) > self.room:
            self.exceed()
        else:
            self.finish(f'["failed","{kind}",{quote(message)}]')

    def read(self):
        """The next frame, or None when the server is gone."""
        head = self.read_bytes(4)
        body = head and self.read_bytes(struct.unpack(">I", head)[0])
        return None if body is None else body.decode("utf-8", "surrogatepass")

    @staticmethod
    def read_bytes(count):
        data = bytearray()
        while len(data) < count:
            chunk = read(3, min(count - len(data), 1 << 20))
            if not chunk:
                return None
            data += chunk
        return bytes(data)
