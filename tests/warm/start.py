"""Run as `python -IS start.py ADDRESS WORDS...`: hands its pipes to the warm process, and ends as the program does.

It imports next to nothing: a fresh interpreter that only passes the word on costs a fiftieth of one that loads
the libraries. A signal is passed on too; where this process is killed, the warm one kills the program. Where
there is no warm process, or it cannot run the program as a fresh interpreter would, a fresh interpreter does.
"""

import marshal
import os
import signal
import sys
import time

# What is under `socket`, and `marshal` in place of `json`: importing those two would be two thirds of this program.
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socket

PATIENCE = 300.0  # seconds until a program has begun: the first one waits for the imports
GLANCE = 0.2  # a signal that comes just before a wait begins is noticed only when it is over: they are short
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH)


def main() -> None:
    _, address, *words = sys.argv
    job = {"words": words, "cwd": os.getcwd(), "env": dict(os.environ)}  # noqa: PTH109  # pathlib is not imported
    door = socket(AF_UNIX, SOCK_SEQPACKET)
    door.settimeout(PATIENCE)
    try:
        door.connect(f"\0{address}")  # a name without a file
        pipes = b"".join(pipe.to_bytes(4, sys.byteorder) for pipe in (0, 1, 2))
        door.sendmsg([marshal.dumps(job)], [(SOL_SOCKET, SCM_RIGHTS, pipes)])
    except OSError:  # nobody is there, or the job is too large for one message
        run_afresh(words)

    def pass_on(number: int, _: object) -> None:
        try:
            door.send(bytes([number]))
        except OSError:
            return  # the program is gone, and so are we in a moment

    for number in PASSED_ON:
        signal.signal(number, pass_on)
    try:
        answer = hear(door, time.monotonic() + PATIENCE)
    except OSError as error:
        sys.exit(f"the warm process does not start a program: {error}")
    if answer == b"no":
        run_afresh(words)
    if answer != b"yes":
        sys.exit("the warm process ended before it had started a program")
    for descriptor in (0, 1, 2):
        os.close(descriptor)  # they are the program's now
    try:
        status = int(hear(door) or -signal.SIGKILL)
    except OSError:
        status = -signal.SIGKILL  # the warm process was killed, and the program with it
    end_as(status)


def hear(door: socket, until: float | None = None) -> bytes:
    """What the warm process says next."""
    door.settimeout(GLANCE)
    while True:
        try:
            return door.recv(16)
        except TimeoutError:
            if until is not None and time.monotonic() > until:
                raise


def run_afresh(words: list[str]) -> None:
    for number in PASSED_ON:
        signal.signal(number, signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, *words])


def end_as(status: int) -> None:
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    main()
