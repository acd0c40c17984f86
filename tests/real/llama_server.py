"""llama.cpp's own server, from the package xllamacpp: `python llama_server.py MODEL.gguf` says where it listens."""

import subprocess
import sys
import time
from contextlib import contextmanager


def serve(model):
    """Serve a GGUF file on a free port, one prompt at a time, until the process ends."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path, settings.port = model, 0
    settings.n_ctx, settings.n_parallel, settings.warmup = 2048, 1, False
    # Several threads wait for each other without rest, which takes minutes on a machine with other work.
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(settings)
    print("listening", server.listening_address, flush=True)
    while True:
        time.sleep(60)


@contextmanager
def running(model):
    """The address of a server in a process of its own."""
    command = [sys.executable, __file__, str(model)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        line = next((line for line in server.stdout if line.startswith("listening ")), "")
        assert line, "the server ended before it listened"
        yield f"{line.split()[1]}/v1"
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    serve(sys.argv[1])
