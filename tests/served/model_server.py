"""A server in front of demo/notes, which answers as each server in the guide's table does.

What it does was read in the code of these servers: llama-cpp-python 0.3, Text Generation Inference 3, Ollama 0.12,
`transformers serve` 5.24, LiteLLM 1.110. As llama.cpp's own server, it answers like the real one, which
`tests/real/test_llama_server.py` asks.

The first part of a path says as which: /vllm/v1/completions. GET /calls returns how many requests came, by their body.
"""

import hashlib
import json
import re
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "sk-test-5f2e9c"
NAME = "notes"  # of the model


class Model:
    """demo/notes in float64, by itself: no part of what is tested."""

    def __init__(self):
        import torch

        import nbsal

        self.torch, self.lock, subject = torch, threading.Lock(), nbsal.load("demo/notes", dtype="float64")
        self.model, self.tokenizer = subject.model, subject.tokenizer

    def ids(self, prompt):
        return list(prompt) if isinstance(prompt, list) else self.tokenizer(prompt)["input_ids"]

    def chat_ids(self, text):
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def text(self, ids, special=True):
        return self.tokenizer.decode(ids, skip_special_tokens=not special, clean_up_tokenization_spaces=False)

    def plain(self, index):
        """A token as llama.cpp writes it: special ones, such as that of unknown words, are nothing."""
        return "" if index in self.tokenizer.all_special_ids else self.text([index])

    def logprobs(self, ids):
        with self.lock, self.torch.no_grad():
            return self.model(self.torch.tensor([ids])).logits[0].log_softmax(-1)

    def generate(self, ids, count):
        new = []
        while len(new) < count:
            new.append(int(self.logprobs([*ids, *new])[-1].argmax()))
            if new[-1] == self.tokenizer.eos_token_id:
                return new[:-1], "stop"
        return new, "length"

    def top(self, row, count):
        values, ids = row.topk(min(count, len(row)))
        return zip(ids.tolist(), values.tolist(), strict=True)


def vllm_logprobs(model, ids, count):
    table = model.logprobs(ids)
    entries = [None]
    for index, row in zip(ids[1:], table[:-1], strict=True):
        likely = {index: float(row[index])} | dict(model.top(row, count))  # the token itself stands first
        entries.append({
            str(i): {"logprob": value, "rank": int((row > value).sum()) + 1, "decoded_token": model.text([i])}
            for i, value in likely.items()
        })  # fmt: skip
    return entries


def completion(model, body):
    ids = model.ids(body["prompt"])
    new, reason = model.generate(ids, body.get("max_tokens", 16))
    return ids, new, {"index": 0, "text": model.text(new, special=False), "logprobs": None, "finish_reason": reason}


def render(model, body):
    options = {"add_generation_prompt": body.get("add_generation_prompt", True), "tokenize": False}
    options["continue_final_message"] = body.get("continue_final_message", False)
    return model.tokenizer.apply_chat_template(body["messages"], **options)


def chat(model, body):
    ids = model.chat_ids(render(model, body))
    new, reason = model.generate(ids, body.get("max_tokens", 16))
    message = {"role": "assistant", "content": model.text(new, special=False)}
    return ids, {"choices": [{"index": 0, "message": message, "finish_reason": reason}]}


def error(status, message):
    return status, {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}


def vllm(model, path, body):
    if body.get("model") != NAME:
        return error(404, f"The model `{body.get('model')}` does not exist.")
    if path == "/v1/chat/completions":
        ids, reply = chat(model, body)
        count = body.get("prompt_logprobs")
        return 200, reply | {"prompt_logprobs": None if count is None else vllm_logprobs(model, ids, count)}
    if path != "/v1/completions":
        return 404, {"detail": "Not Found"}
    ids, _, choice = completion(model, body)
    count = body.get("prompt_logprobs")
    choice["prompt_logprobs"] = None if count is None else vllm_logprobs(model, ids, count)
    return 200, {"object": "text_completion", "choices": [choice]}


def litellm(model, path, body):
    """LiteLLM in front of vLLM: it passes on what it does not know, and what comes back, but no ids (hosted_vllm)."""
    if body.get("model") != NAME:
        return error(400, f"{path}: Invalid model name passed in model={body.get('model')}. Call `/v1/models`")
    if not isinstance(body.get("prompt", ""), str):
        return error(500, "Unmapped prompt format. Your prompt is neither a list of strings nor a string.")
    return vllm(model, path, body)


def llama(model, path, body):
    """llama-cpp-python: texts only; a first token of the template is left out, and special tokens have no text.

    It ignores fields that it does not know, and names of models; its /tokenize takes an `input`.
    """
    if path == "/v1/chat/completions":
        return 200, chat(model, body)[1]
    if path not in ("/v1/completions", "/tokenize"):
        return 404, {"detail": "Not Found"}
    if path == "/tokenize" or not isinstance(body["prompt"], str):
        return 422, {"detail": [{"type": "string_type", "loc": ["body"], "msg": "Input should be a valid string"}]}
    ids, new, choice = completion(model, body)
    if body.get("echo") and body.get("logprobs"):
        whole, table = [*ids, *new], model.logprobs([*ids, *new])
        texts = [model.plain(i) for i in whole]
        values = [float(row[i]) for i, row in zip(whole[1:], table[:-1], strict=True)]
        likely = [
            {model.plain(i): value for i, value in model.top(row, body["logprobs"])} | {text: own}
            for row, text, own in zip(table[:-1], texts[1:], values, strict=True)
        ]
        choice["text"] = body["prompt"] + choice["text"]
        choice["logprobs"] = {
            "tokens": texts[1:], "token_logprobs": [None, *values[1:]], "top_logprobs": [None, *likely[1:]],
        }  # fmt: skip
    return 200, {"object": "text_completion", "choices": [choice]}


def tgi(model, path, body):
    """Text Generation Inference: its completions leave out what they do not know, and its /tokenize takes `inputs`."""
    if path == "/v1/chat/completions":
        return 200, chat(model, body)[1]
    if path not in ("/generate", "/v1/completions", "/tokenize"):
        return 404, ""
    text = body.get("prompt" if path == "/v1/completions" else "inputs")
    if not isinstance(text, str):
        return 422, "Failed to deserialize the JSON body into the target type"
    if path == "/v1/completions":
        return 200, {"object": "text_completion", "choices": [completion(model, body)[2]]}
    ids, parameters = model.ids(text), body["parameters"]
    new, reason = model.generate(ids, parameters["max_new_tokens"])
    reply = {"generated_text": model.text(new, special=False)}
    if parameters.get("decoder_input_details"):
        table = model.logprobs(ids)
        values = [None, *(float(row[i]) for i, row in zip(ids[1:], table[:-1], strict=True))]
        prefill = [{"id": i, "text": model.text([i]), "logprob": v} for i, v in zip(ids, values, strict=True)]
        reply["details"] = {"finish_reason": reason, "generated_tokens": len(new), "prefill": prefill}
    return 200, reply


def ollama(model, path, body):
    """Ollama: log-probabilities of new tokens of chats alone; it ignores fields that it does not know."""
    if path not in ("/v1/chat/completions", "/v1/completions"):
        return 404, "404 page not found"
    if body.get("model") != NAME:
        return error(404, f'model "{body.get("model")}" not found')
    if path == "/v1/completions":
        if not isinstance(body["prompt"], str):
            return error(400, "json: cannot unmarshal array into Go struct field CompletionRequest.prompt")
        return 200, {"object": "text_completion", "choices": [completion(model, body)[2]]}
    ids, reply = chat(model, body)
    if body.get("logprobs"):
        choice = reply["choices"][0]
        new = model.chat_ids(choice["message"]["content"])
        choice["logprobs"] = {"content": new_tokens(model, ids, new, body.get("top_logprobs", 0), named=False)}
    return 200, reply


KNOWN = {"model", "prompt", "messages", "max_tokens", "temperature", "top_p", "seed", "stop", "echo", "logprobs", "n"}


def transformers(model, path, body):
    """`transformers serve`: it refuses fields that OpenAI has not, and ignores `echo` and `logprobs`."""
    if path not in ("/v1/chat/completions", "/v1/completions"):
        return 404, {"detail": "Not Found"}
    if unexpected := body.keys() - KNOWN - {"top_logprobs"}:
        return 422, {"detail": f"Unexpected fields in the request: {unexpected}"}
    return gateway(model, path, body)


def gateway(model, path, body):
    """A gateway that writes replies, and nothing else."""
    if path == "/v1/chat/completions":
        return 200, chat(model, body)[1]
    if path != "/v1/completions":
        return 404, {"detail": "Not Found"}
    if not isinstance(body["prompt"], str):
        return 400, {"detail": "prompt must be a string."}
    return 200, {"object": "text_completion", "choices": [completion(model, body)[2]]}


def shifted(model, path, body):
    """llama-cpp-python with a model without a first token: each token has the numbers of the place after it."""
    status, reply = llama(model, path, body)
    if status == 200 and (logprobs := reply["choices"][0].get("logprobs")):
        ids = model.ids(reply["choices"][0]["text"])
        rows, texts = model.logprobs(ids), [model.text([i]) for i in ids]
        values = [float(row[i]) for i, row in zip(ids, rows, strict=True)]
        likely = [{model.text([i]): value for i, value in model.top(row, body["logprobs"])} for row in rows]
        logprobs |= {"tokens": texts, "token_logprobs": [None, *values[1:]], "top_logprobs": [None, *likely[1:]]}
    return status, reply


def forced(model, grammar):
    """The token ids of a grammar; None where the real server fails, since it forces whole characters alone."""
    ids = [int(index) for index in re.findall(r"<\[(\d+)\]>", grammar)]
    assert grammar == "root ::= " + " ".join(f"<[{index}]>" for index in ids), "a grammar of text"
    return None if {model.tokenizer.eos_token_id, model.tokenizer.unk_token_id} & {*ids} else ids


def token_entry(model, index, row, named):
    text = model.plain(index)
    entry = {"token": text, "bytes": [*text.encode()], "logprob": float(row[index])}
    return {"id": index, **entry} if named else entry


def new_tokens(model, prompt, new, top, named=True):
    """The tokens of a reply with their log-probabilities, and ids where a server names them."""
    rows = model.logprobs([*prompt, *new])[len(prompt) - 1 : -1]
    return [
        token_entry(model, index, row, named)
        | {"top_logprobs": [token_entry(model, likely, row, named) for likely, _ in model.top(row, top)]}
        for index, row in zip(new, rows, strict=True)
    ]


def llamacpp(model, path, body):
    """llama.cpp's own server: log-probabilities of new tokens alone, which are those before a grammar."""
    if path == "/tokenize":
        ids = model.tokenizer(body["content"], add_special_tokens=body.get("add_special", False))["input_ids"]
        pieces = [{"id": i, "piece": model.text([i])} for i in ids]
        return 200, {"tokens": pieces if body.get("with_pieces") else ids}
    if path == "/apply-template":
        return 200, {"prompt": render(model, body)}
    if path not in ("/v1/completions", "/v1/chat/completions"):
        return 404, {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}
    chats = path.startswith("/v1/chat")
    prompt = model.chat_ids(render(model, body)) if chats else model.ids(body["prompt"])
    count = body.get("max_tokens", 16)
    if "grammar" in body:
        if (new := forced(model, body["grammar"])) is None:
            return 500, {"error": {"message": "got exception: Unexpected empty grammar stack", "code": 500}}
        new, reason = [*new, model.tokenizer.eos_token_id][:count], "length" if count <= len(new) else "stop"
    else:
        new, reason = model.generate(prompt, count)
    top = body.get("top_logprobs", 0) if chats else body.get("logprobs")
    content = new_tokens(model, prompt, new, top) if body.get("logprobs") else None
    text = model.text(new, special=False)
    said = {"message": {"role": "assistant", "content": text}} if chats else {"text": text}
    return 200, {
        "choices": [{"index": 0, **said, "logprobs": content and {"content": content}, "finish_reason": reason}]
    }


SERVERS = {
    "vllm": vllm, "llamacpp": llamacpp, "llama": llama, "tgi": tgi, "litellm": litellm, "ollama": ollama,
    "transformers": transformers, "gateway": gateway, "shifted": shifted,
}  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    model, calls = None, Counter()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        _, name, rest = self.path.split("/", 2)
        self.calls[hashlib.sha256(self.path.encode() + body).hexdigest()] += 1
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            if name == "litellm" and "Authorization" in self.headers:
                return self.reply(*error(400, "No connected db."))
            return self.reply(401, {"error": {"message": f"Incorrect API key: {self.headers.get('Authorization')}"}})
        return self.reply(*SERVERS[name](self.model, f"/{rest}", json.loads(body)))

    def do_GET(self):
        lists_models = self.path.endswith("/v1/models")
        self.reply(200, {"object": "list", "data": [{"id": NAME}]} if lists_models else self.calls)

    def reply(self, status, content):
        data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


@contextmanager
def running():
    """The address of a server in a thread of its own."""
    Handler.model = Model()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
