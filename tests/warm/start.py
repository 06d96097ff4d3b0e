"""Run as `python -IS start.py ADDRESS WORDS...`: hands its pipes to the warm process, and ends as the program does.

It imports next to nothing: a fresh interpreter that only passes the word on costs a fiftieth of one that loads
the libraries. A signal is passed on too; where this process is killed, the warm one kills the program.
"""

import json
import os
import signal
import socket
import sys


def main() -> None:
    _, address, *words = sys.argv
    takes_terminal = words[:1] == ["--terminal"]
    job = {
        "words": words[takes_terminal:],
        "cwd": os.getcwd(),  # noqa: PTH109  # pathlib is not imported here
        "env": dict(os.environ),
        "terminal": takes_terminal,
    }
    body = json.dumps(job).encode()
    door = socket.socket(socket.AF_UNIX)
    door.connect(address)
    socket.send_fds(door, [len(body).to_bytes(4, "big")], [0, 1, 2])
    door.sendall(body)
    answers = door.makefile()
    pid = int(answers.readline())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    for descriptor in (0, 1, 2):
        os.close(descriptor)  # they are the program's now
    status = int(answers.readline() or -signal.SIGKILL)
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    main()
