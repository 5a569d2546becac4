"""A conversation on a terminal, for chat.sh: chat_terminal.py TANDEM FOLDER.

Types as a user would, and prints what there is to see of each step.
"""
import os
import pty
import select
import sys
import time

LIMIT_S = 100


class Terminal:
    def __init__(self, args, env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(env)
            os.execv(args[0], args)
        self.seen = b""

    def until(self, what, step):
        """All that comes up to `what`."""
        end = time.monotonic() + LIMIT_S
        while what not in self.seen:
            ready = select.select([self.fd], [], [], end - time.monotonic())
            try:
                got = os.read(self.fd, 4096) if ready[0] else b""
            except OSError:
                got = b""
            if not got:
                sys.exit(f"{step}: no {what!r} in {self.seen!r}")
            self.seen += got
        got, self.seen = self.seen.split(what, 1)
        return got

    def type(self, keys):
        os.write(self.fd, keys)

    def status(self):
        try:
            while os.read(self.fd, 4096):
                pass
        except OSError:
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def main():
    tandem, folder = sys.argv[1:]
    # So slow that an answer has not ended before it is interrupted.
    slow = ["--va-window", "6M", "--va-map-us", "20000"]
    t = Terminal([tandem, "chat", *slow], {"XDG_STATE_HOME": folder, "TERM": "vt100"})
    saved = folder.encode() + b"/saved.json"
    t.until(b"> ", "the prompt")
    t.type(b"Once upon a timx\x7fe\n")
    t.until(b"I am", "an answer to what was edited")
    t.type(b"\x03")
    t.until(b"\n> ", "the prompt behind an answer that was ended")
    t.type(b"/stats\n")
    print("stats:", b"ended by interrupted" in t.until(b"context: ", "stats"))
    t.until(b"> ", "the prompt")
    t.type(b"typed and dropped\x03")
    t.until(b"Ctrl-C again", "what Ctrl-C at the prompt says")
    t.until(b"> ", "the prompt")
    t.type(b"/set predict=3\n")
    t.until(b"> ", "the prompt")
    t.type(b"one\\\n")
    t.until(b". ", "the prompt of a second line")
    t.type(b"two\n")
    t.until(b"\n> ", "the prompt")
    t.type(b'"""\n')
    t.until(b". ", "the prompt of a block")
    t.type(b"three\n")
    t.until(b". ", "the prompt of a block")
    t.type(b'four\n')
    t.until(b". ", "the prompt of a block")
    t.type(b'"""\n')
    t.until(b"\n> ", "the prompt")
    t.type(b"/save " + saved + b"\n")
    t.until(b"\n> ", "the prompt")
    t.type(b"\x03")
    t.until(b"Ctrl-C again", "what Ctrl-C at the prompt says")
    t.until(b"> ", "the prompt")
    t.type(b"\x03")
    print("status:", t.status())


main()
