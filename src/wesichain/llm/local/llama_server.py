"""The child process of a model: llama.cpp and its HTTP server.

Run as a script: `llama_server.py PATH NAME CONTEXT THREADS CORES PORT`, with the access key as the first line
of standard input. It prints one line, its address and the number of threads, when it listens, and serves
until standard input is closed, so that it never outlives its parent.

It is a process of its own because llama.cpp in the parent would handle SIGINT and SIGTERM, hold the GIL while
it loads, and end the program if a damaged model file makes it abort.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import xllamacpp  # type: ignore[import-untyped]  # it ships no types

llama: Any = xllamacpp


def start(path: str, name: str, context: int, port: int, key: str, *, threads: int) -> Any:
    """Load the model and listen on loopback, for clients with the key."""
    params = llama.CommonParams()
    params.model.path = path
    params.model_alias = {name}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.api_keys = [key] if key else []
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = 1  # only errors
    params.n_ctx = context
    params.n_parallel = 1
    if not has_gpu():
        params.n_batch = params.n_ubatch = 32  # it checks for closed connections between batches
    params.cache_ram_mib = 256  # prompts of alternating conversations
    params.fit_params = False
    params.warmup = False
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    return llama.Server(params)


def has_gpu() -> bool:
    kinds = llama.ggml_backend_dev_type
    gpus = (kinds.GGML_BACKEND_DEVICE_TYPE_GPU, kinds.GGML_BACKEND_DEVICE_TYPE_IGPU)
    return any(device["type"] in gpus for device in llama.get_device_info())


def start_measured(begin: Callable[..., Any], cores: int) -> tuple[Any, int]:
    """The server with the number of threads that is faster now: all cores, or one.

    The threads of a step wait for the slowest one, so that on a busy machine one thread can be several times
    faster than two.
    """
    server = begin(threads=cores)
    if cores == 1:
        return server, 1
    speed, busy = measure(server)
    if busy > 0.85 * cores:  # every thread had its core: the machine is not busy
        return server, cores
    del server  # two servers at once would disturb the measurement
    server = begin(threads=1)
    if measure(server)[0] >= speed:
        return server, 1
    del server
    return begin(threads=cores), cores


def measure(server: Any) -> tuple[float, float]:
    """The number of short requests per second, and of cores that they used."""
    probe = {"prompt": "one two three four five", "max_tokens": 8, "temperature": 0, "ignore_eos": True}
    server.handle_completions(probe)  # the first request also reads the model from the disk
    wall, cpu = time.monotonic(), time.process_time()
    server.handle_completions(probe)
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    return 1 / wall, cpu / wall


def main() -> None:
    path, name, *numbers = sys.argv[1:]
    context, threads, cores, port = map(int, numbers)
    key = sys.stdin.buffer.readline().decode().strip()  # not an argument: arguments are public
    begin = partial(start, path, name, context, port, key)
    if threads:
        server = begin(threads=threads)
    else:
        server, threads = start_measured(begin, cores)
    sys.stdout.write(f"{server.listening_address} {threads}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    os._exit(0)  # at once, even during a reply: there is nothing to save


if __name__ == "__main__":
    main()
