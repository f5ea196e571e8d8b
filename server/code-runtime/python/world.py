"""The process that one Python program runs in (code-mode.md §5, §15.2). It speaks the frames of protocol.js on descriptor 3."""

import ast
import asyncio
import builtins
import io
import json
import os
import signal
import sys
import threading
import traceback

# An isolated interpreter does not look beside the script; a program is not to find these modules either.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from program_channel import Channel  # noqa: E402
from program_values import Lossy, lossless_text, parse_reply, quote  # noqa: E402

sys.path.pop(0)

PROGRAM = "program"
WRAPPER = "__program__"
MAX_FRAMES = 10
MAX_CAUSES = 3
UNSHOWABLE = "(an error that cannot be shown)"
MISSING = object()


class Calls:
    """The calls of the program: numbered as they are made, settled as replies come."""

    def __init__(self, channel, loop):
        self.channel = channel
        self.loop = loop
        self.last = 0
        self.pending = {}

    def make(self, namespace, name, make_error):
        header = f"{json.dumps(namespace)},{json.dumps(name)}"

        # Named as the program is told of it (code-mode.md §4.4).
        def call(args=MISSING, *_more):
            future = self.loop.create_future()
            try:
                if args is MISSING:
                    raise Lossy("not lossless JSON: $: there is none")
                text = lossless_text(args)
            except Lossy as lossy:
                future.set_exception(make_error(f"The argument is {lossy}"))
                return future
            self.last += 1
            self.pending[self.last] = (future, make_error)
            self.channel.post(f'["call",{self.last},{header}]\n{text}')
            return future

        call.__name__ = call.__qualname__ = name
        return call

    def settle(self, frame):
        header, _, body = frame.partition("\n")
        _, number, is_value, *message = json.loads(header)
        future, make_error = self.pending.pop(number, (None, None))
        if future is None or future.done():
            return
        if not is_value:
            future.set_exception(make_error(message[0]))
            return
        try:
            future.set_result(parse_reply(body))
        except RecursionError:
            future.set_exception(make_error("The result is nested too deep for Python."))


class Namespace:
    """The functions by attribute, where the name allows it, and by index."""

    __slots__ = ("_functions",)

    def __init__(self, functions):
        object.__setattr__(self, "_functions", functions)

    def __getattr__(self, name):
        try:
            return self._functions[name]
        except KeyError:
            raise AttributeError(f"there is no function {name!r}") from None

    def __getitem__(self, name):
        return self._functions[name]

    def __contains__(self, name):
        return name in self._functions

    def __iter__(self):
        return iter(self._functions)

    def __dir__(self):
        return list(self._functions)

    def __setattr__(self, name, value):
        raise TypeError("the functions of a program cannot be replaced")


class LogStream(io.TextIOBase):
    """A standard stream of which each write is one log entry."""

    def __init__(self, channel, descriptor):
        self.channel = channel
        self.descriptor = descriptor

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError("write() argument must be str")
        self.channel.log(text)
        return len(text)

    def writable(self):
        return True

    def fileno(self):
        return self.descriptor


def replace_output(channel):
    """Each `print` is one log entry, as one call of a console is (code-mode.md §6)."""
    sys.stdout = sys.__stdout__ = LogStream(channel, 1)
    sys.stderr = sys.__stderr__ = LogStream(channel, 2)
    plain_print = builtins.print

    def print_entry(*values, sep=" ", end="\n", file=None, flush=False):
        if file is not None and not isinstance(file, LogStream):
            plain_print(*values, sep=sep, end=end, file=file, flush=flush)
            return
        text = io.StringIO()
        plain_print(*values, sep=sep, end="" if end is None or end == "\n" else end, file=text)
        channel.log(text.getvalue())

    builtins.print = print_entry


def report(error):
    """What is told of an error, whatever the program has made of its class."""
    try:
        return describe(error)
    except BaseException:
        return UNSHOWABLE


def describe(error):
    """`Name: message`, the places in the program, and up to three causes (code-mode.md §7.4)."""
    text = head(error)
    for frame in [entry for entry in frames(error) if entry.filename == PROGRAM][-MAX_FRAMES:][::-1]:
        place = f"{PROGRAM}:{frame.lineno}:{(getattr(frame, 'colno', None) or 0) + 1}"
        text += f"\n    at {place}" if frame.name == WRAPPER else f"\n    at {frame.name} ({place})"
    cause = error
    for _ in range(MAX_CAUSES):
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
        if cause is None:
            break
        text += f"\ncaused by: {head(cause)}"
    return text


def frames(error):
    try:
        return traceback.extract_tb(error.__traceback__)
    except Exception:
        return []


def head(error):
    name = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename == PROGRAM:
        return f"{name}: {error.msg} ({PROGRAM}:{error.lineno}:{error.offset or 1})"
    try:
        message = str(error)
    except BaseException:
        message = "(a message that cannot be shown)"
    return f"{name}: {message}" if message else name


def compile_program(program, names):
    """The program as the body of an async function. It is parsed by itself, so no text of it can leave the function."""
    try:
        return compile_body(program, names)
    except (MemoryError, RecursionError):
        raise SyntaxError("the program is too deeply nested to parse") from None


def compile_body(program, names):
    tree = ast.parse(program, PROGRAM)
    arguments = ast.arguments(
        posonlyargs=[], args=[ast.arg(arg=name) for name in names], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    function = ast.AsyncFunctionDef(
        name=WRAPPER, args=arguments, body=tree.body or [ast.Pass()], decorator_list=[], returns=None, type_params=[]
    )
    module = ast.fix_missing_locations(ast.Module(body=[function], type_ignores=[]))
    scope = {"__builtins__": builtins, "__name__": WRAPPER}
    exec(compile(module, PROGRAM, "exec"), scope)
    return scope.pop(WRAPPER)


def make_error_class(shape):
    """A maker of errors for a function's name, and the class to inject, if the namespace has one."""
    described = shape.get("errorClass")
    if described is None:
        return None, lambda name: RuntimeError
    error_class = type(described["name"], (Exception,), {"__module__": WRAPPER})

    def maker(name):
        def make(message):
            error = error_class(message)
            error.message = message
            setattr(error, described["memberNameProperty"], name)
            return error

        return make

    return error_class, maker


async def run(channel, program, shapes):
    loop = asyncio.get_running_loop()
    calls = Calls(channel, loop)
    loop.set_exception_handler(lambda _loop, context: fail_stray(channel, context))
    threading.Thread(target=listen, args=(channel, loop, calls), daemon=True).start()
    injected = {}
    for shape in shapes:
        error_class, maker = make_error_class(shape)
        functions = {name: calls.make(shape["global"], name, maker(name)) for name in shape["names"]}
        injected[shape["global"]] = Namespace(functions)
        if error_class is not None:
            injected[error_class.__name__] = error_class
    value = await compile_program(program, list(injected))(**injected)
    try:
        channel.done(None if value is None else lossless_text(value))
    except Lossy as lossy:
        channel.fail("invalid-output", f"The program's value is {lossy}")


def fail_stray(channel, context):
    error = context.get("exception")
    channel.fail("exception", str(context.get("message")) if error is None else report(error))


def listen(channel, loop, calls):
    while True:
        frame = channel.read()
        if frame is None:
            os.kill(0, signal.SIGKILL)
        try:
            loop.call_soon_threadsafe(calls.settle, frame)
        except RuntimeError:
            # The loop has ended before the replies have.
            pass


def limit_memory(mebibytes):
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (mebibytes * 1024 * 1024, resource.RLIM_INFINITY))
    except (ImportError, ValueError, OSError):
        # The resident memory is watched from outside in any case.
        pass


def conclude(channel, error):
    """Tells how a program ended that did not return."""
    try:
        if isinstance(error, MemoryError):
            channel.finish('["memory"]')
        elif isinstance(error, SystemExit):
            code = 0 if error.code is None else error.code
            if not isinstance(code, int):
                channel.log(str(code))
                code = 1
            # A byte, as the system would have it.
            channel.finish(f'["exit",{int.__and__(code, 0xFF)}]')
        else:
            channel.fail("exception", report(error))
    except BaseException:
        channel.fail("exception", UNSHOWABLE)


def rehearse(channel):
    """What a program takes its way through is loaded when it is first used; the program that other worlds rehearse with is no Python."""
    channel.read()
    compile_program("return 1", [])
    asyncio.run(asyncio.sleep(0))


def main():
    # Locale coercion leaves a variable even in an empty environment.
    os.environ.clear()
    limits = json.loads(sys.argv[1])
    limit_memory(limits["maxOldGenerationSizeMb"])
    channel = Channel(limits["maxOutputBytes"])
    rehearse(channel)
    channel.post('["ready"]')
    start = channel.read()
    if start is None:
        return
    # Said before the program can run: where it was not heard, another world may take the program.
    channel.post('["started"]')
    header, _, program = start.partition("\n")
    replace_output(channel)
    # Should this very file fail, its places are none of the program's business.
    sys.excepthook = lambda *_: None
    try:
        asyncio.run(run(channel, program, json.loads(header)[1]))
    except BaseException as error:
        conclude(channel, error)
    # The host has what it needs, and ends the process.
    while True:
        signal.pause()


main()
