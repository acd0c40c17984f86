"""What a call of a served model costs beside a bare client: `python -m tests.bench.served`.

The server scores words at once, in a process thread of this machine, and is sent one request after the other. Ours are
counted, sent, checked against the text, read, and kept in a file; the client of the standard library sends the same
bodies and parses the replies.
"""

import http.client
import json
import tempfile
import time
from pathlib import Path

import nbsal
from nbsal.model.served.server import Query
from nbsal.support.progress import Meter
from tests.bench import table
from tests.bench.table import Row, cost, spread
from tests.served import hostile

WORDS = 200
MOST = 3.0  # times the bare client's


def ours(server, prompts, folder, number) -> float:
    """Milliseconds of one call."""
    endpoint = nbsal.Endpoint(server.url, "m", cache=Path(folder) / f"{number}.sqlite", parallel=1, budget=None)
    asked = nbsal.load(endpoint).model.server
    ids = [tuple(asked.tokenizer(prompt)["input_ids"]) for prompt in prompts]
    asked.form(Query(ids[0], ids[0][-2:]), Meter(None))
    start = time.perf_counter()
    asked.scores([Query(each[:-2], each[-2:]) for each in ids], Meter(None))
    return 1000 * (time.perf_counter() - start) / len(prompts)


def bare(server, prompts) -> float:
    """Milliseconds of one request."""
    start = time.perf_counter()
    for prompt in prompts:
        connection = http.client.HTTPConnection(*server.server_address)
        body = {"model": "m", "prompt": prompt, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 5}
        connection.request("POST", "/v1/completions", json.dumps(body))
        json.loads(connection.getresponse().read())
        connection.close()
    return 1000 * (time.perf_counter() - start) / len(prompts)


def results(rounds: int = 3, quick: bool = False) -> list[Row]:
    """One row: a call beside a bare request."""
    prompts = [" ".join(f"word{i}x{k}" for i in range(WORDS)) for k in range(10 if quick else 100)]
    with hostile.running() as server, tempfile.TemporaryDirectory() as folder:
        pairs = [(ours(server, prompts, folder, number), bare(server, prompts)) for number in range(rounds)]
    times, requests = zip(*pairs, strict=True)
    ratios = [own / other for own, other in pairs]
    row = cost(f"a call of a served model, {WORDS} words", times, "ms", peer=f"{spread(requests)} ms, http.client")
    goal = {"ratio": spread([1 / ratio for ratio in ratios]), **table.at_most(MOST, ratios, " times")}
    return [Row(**vars(row) | goal)]


if __name__ == "__main__":
    table.main(results, __doc__)
