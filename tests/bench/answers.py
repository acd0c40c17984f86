"""The cost of explaining replies, in forward passes of the same model: `python -m tests.bench.answers`.

A random Llama of 4 blocks and width 192 with prompts of 64 and 512 tokens and replies of 32 and 256, and with ten
documents, of which the sentence is checked; one thread, CPU time. A forward pass is the model's own over prompt and
reply, with logits at the reply only.
"""

import copy

import torch
import transformers

import nbsal
from nbsal.explain.prompt import prompts, sources
from tests.answers.writers import tokenizer
from tests.bench import table
from tests.bench.measure import cpu, in_forwards
from tests.bench.table import Row, cost

SENTENCES = 8
GOALS = {  # forward passes by method, and tokens of the prompt and the reply
    ("gradxact", 64, 32): 27,
    ("gradxact", 512, 32): 52,
    ("gradxact", 64, 256): 180,
    ("gae", 64, 32): 36,
    ("gae", 512, 32): 95,
    ("attn-lrp, float32", 64, 32): 66,
    ("attn-lrp, float32", 512, 32): 100,
    ("attn-lrp", 64, 32): 100,
    ("attn-lrp", 512, 32): 260,
    ("ifr", 512, 32): 4.2,  # what flashtrace takes
    ("attcat", 512, 32): 60,
    ("whole reply", 64, 32): 3.5,
    ("occlusion", 512, 32): SENTENCES + 1,
}
DOCUMENTS = 10
CHECKED = {  # forward passes by method and unit, with the check
    ("occlusion", "document"): 10,
    ("contextcite", "document"): 40,  # what context-cite takes for 64 ablations, without a check
    ("occlusion", "sentence"): 34,
    ("gradxact", None): 45,
    ("attn-lrp", None): 45,
}


def load(quick: bool) -> nbsal.Subject:
    """A random Llama in float32."""
    torch.manual_seed(0)
    width, inner, heads = (32, 64, 2) if quick else (192, 512, 6)
    sizes = {"hidden_size": width, "intermediate_size": inner, "num_attention_heads": heads, "num_hidden_layers": 4}
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = transformers.LlamaConfig(vocab_size=400, **sizes, **special)
    reader = copy.deepcopy(tokenizer(None))
    reader.model_max_length = config.max_position_embeddings
    return nbsal.load(transformers.LlamaForCausalLM(config).eval(), tokenizer=reader)


def task(subject, name: str, prompt: str, reply):
    """A function that explains the reply."""
    if name == "whole reply":
        answer = nbsal.answer(subject, prompt, reply, method="gae", progress=False)
        return lambda: answer.of(slice(None))
    kind, _, precision = name.partition(", ")
    explain = nbsal.Explainer(subject, kind, **{"dtype": "model"} if precision else {})
    return lambda: explain.reply(prompt, reply, check=False, progress=False)


def results(rounds: int = 3, quick: bool = False) -> list[Row]:
    """The cost of methods for all tokens of a reply, and of reading messages and replies."""
    torch.set_num_threads(1)
    subject, rows = load(quick), []
    for (name, length, count), goal in GOALS.items():
        prompt = " ".join(["a" + " a" * (length // SENTENCES - 3) + "."] * SENTENCES)
        reply = torch.randint(10, 300, (count,), generator=torch.Generator().manual_seed(0)).tolist()
        ids = torch.tensor([[*subject.tokenizer(prompt)["input_ids"], *reply]])

        def forward(ids=ids, count=count):
            with torch.no_grad():
                subject.model(ids, use_cache=False, logits_to_keep=count + 1)

        work = task(subject, name, prompt, reply)
        work()  # the first call of a method takes longer
        costs = in_forwards({name: work}, forward, rounds)[name]
        rows.append(cost(f"{name}, {ids.shape[1] - count} + {count} tokens", costs, "forward passes", goal))
    return rows + _checked(subject, rounds) + _reading(subject, rounds)


def _checked(subject, rounds: int) -> list[Row]:
    """The cost of a reply from documents with the check of its sentence."""
    documents = [f"{'a ' * 18}{'the ' * number}. {'the ' * 18}." for number in range(DOCUMENTS)]
    reply = torch.randint(10, 300, (32,), generator=torch.Generator().manual_seed(0)).tolist()
    settings = {"documents": documents, "progress": False}
    row = nbsal.answer(subject, "Who?", reply, method="random", check=False, **settings).reading.row
    ids, rows = torch.tensor([row.ids]), []

    def forward():
        with torch.no_grad():
            subject.model(ids, use_cache=False, logits_to_keep=len(reply) + 1)

    for (method, unit), goal in CHECKED.items():

        def work(method=method, unit=unit):
            nbsal.answer(subject, "Who?", reply, method=method, unit=unit, **settings)

        work()  # the first call tests the model
        name = f"{method}{f' by {unit}' if unit else ''}, checked, {DOCUMENTS} documents"
        costs = in_forwards({name: work}, forward, rounds)[name]
        rows.append(cost(f"{name}, {len(row) - len(reply)} + {len(reply)} tokens", costs, "forward passes", goal))
    return rows


def _reading(subject, rounds: int) -> list[Row]:
    """Seconds of reading a long reply, and many long messages."""
    prompt = prompts.read_prompt(subject, sources.parse_prompt("Why?", ()), None, None)
    reply = subject.tokenizer("The cat sat on the mat, and a warm film began. " * 200)["input_ids"][:1_000]
    subject.tokenizer.chat_template = tokenizer("chatml").chat_template
    messages = [{"role": "user", "content": "The cat sat on the mat. " * 83} for _ in range(60)]
    request = sources.parse_messages(messages, (), templated=False)
    works = {
        ("a reply of 1,000 tokens", 0.02): lambda: prompts.with_reply(subject, prompt, reply),
        ("60 messages of 2,000 characters", 0.1): lambda: prompts.read_prompt(subject, request, None, None),
    }
    rows = []
    for (name, goal), work in works.items():
        work()
        rows.append(cost(f"reading {name}", [cpu(work) for _ in range(rounds)], "s", goal, digits=3))
    return rows


if __name__ == "__main__":
    table.main(results, __doc__)
