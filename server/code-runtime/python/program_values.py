"""Values of a program as JSON text, and back (code-mode.md §9)."""

import json
import math
import sys

LARGEST_INTEGER = 2**53 - 1
# json.loads recurses once a level; deeper values would overflow the C stack.
MAX_REPLY_DEPTH = 10_000
quote = json.encoder.encode_basestring


class Lossy(Exception):
    """A value is not lossless JSON; the text says where and why."""


def lossless_text(root):
    """JSON text of a value, without recursion. Only what comes back equal is accepted: no tuples, no keys but strings."""
    parts = []
    # What is still to be written: text as it is, values with their paths, and containers to be left again.
    stack = [(root, "$")]
    ancestors = set()
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        value, path = item
        if path is None:
            ancestors.discard(value)
            continue
        kind = type(value)
        if kind is list or kind is dict:
            if id(value) in ancestors:
                raise Lossy(f"not lossless JSON: {path[-2000:]}: a circular reference is not JSON")
            ancestors.add(id(value))
            parts.append("[" if kind is list else "{")
            stack.append("]" if kind is list else "}")
            stack.append((id(value), None))
            entries = []
            for key in range(len(value)) if kind is list else value:
                if kind is dict and type(key) is not str:
                    raise Lossy(f"not lossless JSON: {path[-2000:]}: a key that is no string is not JSON")
                if entries:
                    entries.append(",")
                if kind is dict:
                    entries.append(quote(key) + ":")
                # A path that grew with each of many thousand levels would be quadratic.
                step = f"[{key}]" if kind is list else f".{key[:80]}"
                entries.append((value[key], (path + step)[-400:]))
            stack.extend(reversed(entries))
        else:
            parts.append(scalar_text(value, path))
    return "".join(parts)


def scalar_text(value, path):
    kind = type(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is str:
        return quote(value)
    if kind is int:
        if abs(value) > LARGEST_INTEGER:
            raise Lossy(f"not lossless JSON: {path}: an integer beyond 2^53 is not JSON")
        return str(value)
    if kind is float:
        if not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0):
            raise Lossy(f"not lossless JSON: {path}: {value!r} is not JSON")
        return str(int(value)) if value.is_integer() and abs(value) <= LARGEST_INTEGER else repr(value)
    raise Lossy(f"not lossless JSON: {path}: {kind.__name__} is not JSON")


def parse_reply(text):
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, MAX_REPLY_DEPTH))
    try:
        return json.loads(text)
    finally:
        sys.setrecursionlimit(limit)
