"""The child process that holds a model: llama.cpp and its HTTP server, alone.

Run as a script: `server.py PATH NAME CONTEXT THREADS CORES PORT`, with the access key as the first line
of standard input. It prints one line, its address and the number of threads, once it listens; it serves
until standard input closes (so it never outlives its parent), and ends.

A process of its own, because llama.cpp in the parent would take over SIGINT and SIGTERM, hold the
interpreter's lock while it loads, and take the program with it if a damaged model file makes it abort.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from typing import Any

import xllamacpp  # type: ignore[import-untyped]  # it ships no types

llama: Any = xllamacpp


@dataclass(frozen=True, slots=True)
class Load:
    """The model to load, and how."""

    path: str
    name: str
    context: int
    threads: int
    cores: int
    port: int
    key: str


def start(load: Load, *, threads: int) -> Any:
    """Load the model and listen on loopback, for callers that have the key."""
    params = llama.CommonParams()
    params.model.path = load.path
    params.model_alias = {load.name}
    params.hostnames = ["127.0.0.1"]
    params.port = load.port
    params.api_keys = [load.key] if load.key else []
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = 1  # errors alone
    params.n_ctx = load.context
    params.n_parallel = 1
    if not has_gpu():
        params.n_batch = params.n_ubatch = 32  # between two batches it notices that nobody waits any longer
    params.cache_ram_mib = 256  # prompts of conversations that take turns
    params.fit_params = False
    params.warmup = False
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    return llama.Server(params)


def has_gpu() -> bool:
    kinds = llama.ggml_backend_dev_type
    gpus = (kinds.GGML_BACKEND_DEVICE_TYPE_GPU, kinds.GGML_BACKEND_DEVICE_TYPE_IGPU)
    return any(device["type"] in gpus for device in llama.get_device_info())


def start_measured(load: Load) -> tuple[Any, int]:
    """The server with the number of threads that is faster just now: all cores, or one.

    The threads of a step wait for the slowest of them, so on a busy machine one thread can be several
    times faster than two.
    """
    server = start(load, threads=load.cores)
    if load.cores == 1:
        return server, 1
    speed, busy = measure(server)
    if busy > 0.85 * load.cores:  # every thread had its core: nobody else wants them
        return server, load.cores
    del server  # two at once would measure each other
    server = start(load, threads=1)
    if measure(server)[0] >= speed:
        return server, 1
    del server
    return start(load, threads=load.cores), load.cores


def measure(server: Any) -> tuple[float, float]:
    """Short requests a second, and how many cores they really had."""
    probe = {"prompt": "one two three four five", "max_tokens": 8, "temperature": 0, "ignore_eos": True}
    server.handle_completions(probe)  # the first one also reads the model from the disk
    wall, cpu = time.monotonic(), time.process_time()
    server.handle_completions(probe)
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    return 1 / wall, cpu / wall


def main() -> None:
    path, name, *numbers = sys.argv[1:]
    context, threads, cores, port = map(int, numbers)
    key = sys.stdin.buffer.readline().decode().strip()  # not an argument: those are public
    load = Load(path, name, context, threads, cores, port, key)
    if threads:
        server = start(load, threads=threads)
    else:
        server, threads = start_measured(load)
    sys.stdout.write(f"{server.listening_address} {threads}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    os._exit(0)  # at once, also in the middle of a reply: nothing here needs saving


if __name__ == "__main__":
    main()
