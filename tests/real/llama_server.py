"""llama.cpp's own server, from the package xllamacpp: `python llama_server.py MODEL.gguf` says where it listens."""

import sys
import time


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


if __name__ == "__main__":
    serve(sys.argv[1])
