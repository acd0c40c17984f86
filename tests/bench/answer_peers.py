"""Other tools that explain a reply, beside nbsal: `python -m tests.bench.answer_peers`.

One answer of demo/notes with its documents, a warm call of each tool as its user would write it, one thread, CPU time,
without loading; ours without the check of its sentence (`check=False`), which the others lack, but where a row says so.
Each tool gets the prompt as the template writes it, cut at the documents where it can be. llmSHAP and TokenSHAP let the
model write again without some parts and compare the texts, where ours scores the same reply. A tool that is not
installed gets a row that says so. `--only` chooses tools.
"""

import copy
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

import nbsal
from tests.bench import table
from tests.bench.measure import cpu
from tests.bench.table import Row, missing, spread


def captum_gradient(model, tokenizer, prompt, reply, documents):
    """Gradient x input of every token of the reply"""
    from captum.attr import LayerGradientXActivation, LLMGradientAttribution, TextTokenInput

    explain = LLMGradientAttribution(LayerGradientXActivation(model, model.get_input_embeddings()), tokenizer)
    return lambda: explain.attribute(TextTokenInput(prompt, tokenizer), target=reply)


def captum_one_out(*arguments):
    """Every document left out in turn"""
    return _captum_template("FeatureAblation", *arguments)


def captum_shapley(*arguments):
    """Shapley values of the documents, 25 permutations"""
    return _captum_template("ShapleyValueSampling", *arguments, n_samples=25)


def _captum_template(kind, model, tokenizer, prompt, reply, documents, **settings):
    import captum.attr

    explain = captum.attr.LLMAttribution(getattr(captum.attr, kind)(model), tokenizer)
    head, tail = prompt.split(documents[0])[0], prompt.split(documents[-1])[1]
    template = lambda *texts: head + "\n- ".join(text for text in texts if text) + tail  # noqa: E731
    given = captum.attr.TextTemplateInput(template, list(documents), baselines=[""] * len(documents))
    settings |= {"forward_in_tokens": False}  # by default it reads the reply again for each of its tokens
    return lambda: explain.attribute(given, target=reply, **settings)


def inseq_gradient(model, tokenizer, prompt, reply, documents):
    """Gradient x input of every token, and its probability"""
    import inseq

    explain = inseq.load_model(model, "input_x_gradient", tokenizer=tokenizer)
    options = {"step_scores": ["probability"], "show_progress": False, "device": "cpu"}
    return lambda: explain.attribute(prompt, prompt + reply, **options)


def interpreto_gradient(model, tokenizer, prompt, reply, documents):
    """The size of the gradient for every token"""
    import interpreto

    explain = interpreto.Saliency(model, tokenizer)
    return lambda: explain(prompt, reply)


def interpreto_sentence(model, tokenizer, prompt, reply, documents):
    """Every sentence left out in turn, for the whole reply"""
    import interpreto

    explain = interpreto.Occlusion(model, tokenizer, granularity=interpreto.Granularity.SENTENCE)
    return lambda: explain(prompt, reply)


def contextcite_document(*arguments):
    """A lasso over 64 ablations of ten documents"""
    return _contextcite(*arguments)


def contextcite_checked(*arguments):
    """A lasso over 64 ablations of ten documents, where ours has the check of its sentence as well"""
    return _contextcite(*arguments)


def _contextcite(model, tokenizer, prompt, reply, documents):
    from context_cite import ContextCiter
    from context_cite.context_partitioner import BaseContextPartitioner

    class Documents(BaseContextPartitioner):
        num_sources = len(documents)

        def split_context(self):
            pass

        def get_source(self, index):
            return documents[index]

        def get_context(self, mask=None):
            return "\n- ".join(text for i, text in enumerate(documents) if mask is None or mask[i])

    tokenizer.chat_template = "{{ messages[0].content }}"
    parts = Documents("\n- ".join(documents))
    head, tail = prompt.split(documents[0])[0], prompt.split(documents[-1])[1]
    settings = {"partitioner": parts, "prompt_template": f"{head}{{context}}{tail}"}

    def work():
        citer = ContextCiter(model, tokenizer, parts.context, "", **settings)
        citer._cache["output"] = prompt + reply  # which it would let the model write
        return citer.get_attributions(verbose=False)

    return work


def flashtrace_token(*arguments):
    """Information flow routes to every token of the reply"""
    return _flashtrace("ifr-matrix", *arguments)


def flashtrace_reply(*arguments):
    """Information flow routes to the reply as a whole, where ours scores every token"""
    return _flashtrace("ifr-span", *arguments)


def _flashtrace(method, model, tokenizer, prompt, reply, documents):
    from flashtrace import FlashTrace

    model.set_attn_implementation("eager")  # it reads the attention maps
    explain = FlashTrace(model, tokenizer)
    return lambda: explain.trace(prompt=prompt, target=reply, method=method)


def llmshap_exact(model, tokenizer, prompt, reply, documents):
    """Exact Shapley values of the documents, from a new reply to each coalition"""
    from llmSHAP import BasicPromptCodec, DataHandler, ShapleyAttribution
    from llmSHAP.llm import LLMInterface

    class Writer(LLMInterface):
        def generate(self, prompt, tools=None, images=None):
            return write(model, tokenizer, prompt[-1]["content"], reply)

    head, tail = prompt.split(documents[0])[0], prompt.split(documents[-1])[1]
    parts = {"head": head} | {f"document {text}": text for text in documents} | {"tail": tail}
    data = DataHandler(parts, permanent_keys={"head", "tail"})
    settings = {"use_cache": True, "verbose": False}
    return lambda: ShapleyAttribution(Writer(), data, BasicPromptCodec(), **settings).attribution()


def tokenshap_sentence(model, tokenizer, prompt, reply, documents):
    """Shapley values of the sentences, from new replies to all coalitions"""
    from token_shap import Model, StringSplitter, TokenSHAP

    class Writer(Model):
        def generate(self, prompt):
            return write(model, tokenizer, prompt, reply)

    pattern = "|".join(f"(?<={re.escape(text)}) " for text in documents)
    explain = TokenSHAP(Writer(), StringSplitter(pattern))
    return lambda: explain.analyze(prompt, sampling_ratio=1.0)


def write(model, tokenizer, prompt, reply):
    """What the model writes after a prompt, at most as many tokens as the reply has."""
    inputs = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
    count, most = inputs["input_ids"].shape[1], len(tokenizer(reply)["input_ids"])
    ids = model.generate(**inputs, max_new_tokens=most, do_sample=False, pad_token_id=tokenizer.eos_token_id)
    return tokenizer.decode(ids[0, count:], skip_special_tokens=True)


PATH = Path(__file__).with_name("answer_peers.json")
PACKAGES = {"contextcite": "context-cite"}


@dataclass(frozen=True)
class Case:
    """What a tool does, our method, the number of documents, and whether ours checks its sentence."""

    theirs: Callable[..., Any]
    method: str
    layer: int | None = None
    documents: int = 5
    check: bool = False

    @property
    def tool(self) -> str:
        name = self.theirs.__name__.split("_")[0]
        return PACKAGES.get(name, name)


CASES = (
    Case(captum_gradient, "gradxact", layer=0),
    Case(captum_one_out, "occlusion"),
    Case(captum_shapley, "shapley"),
    Case(inseq_gradient, "gradxact", layer=0),
    Case(interpreto_gradient, "simple", layer=0),
    Case(interpreto_sentence, "occlusion"),
    Case(llmshap_exact, "shapley"),
    Case(tokenshap_sentence, "shapley"),
    Case(contextcite_document, "contextcite", documents=10),
    Case(contextcite_checked, "contextcite", documents=10, check=True),
    Case(flashtrace_token, "ifr"),
    Case(flashtrace_reply, "ifr"),
)


def results(rounds: int = 3, quick: bool = False, store: Path | None = None, only: Iterable[str] = ()) -> list[Row]:
    """The rows of all tools, or of some: their seconds beside ours; those of a tool that is installed are stored."""
    torch.set_num_threads(1)
    rows = []
    for tool, cases in groupby(CASES, lambda case: case.tool):
        if only and tool not in only:
            continue
        try:
            measured = [compare_case(case, rounds) for case in cases]
        except ImportError:
            rows.append(missing(tool, "not installed"))
            continue
        if store:
            table.store(store, tool, measured)
        rows += measured
    return rows


def compare_case(case: Case, rounds: int) -> Row:
    """The seconds of a tool beside ours, in turn."""
    subject = nbsal.load("demo/notes")
    example = next(row for row in nbsal.samples.texts("notes") if len(row["documents"]) == case.documents)
    question, documents = [{"role": "user", "content": example["question"]}], example["documents"]
    settings = {} if case.layer is None else {"layer": case.layer}
    reply, explain = " " + example["answer"], nbsal.Explainer(subject, case.method, **settings)
    options = {"documents": documents, "unit": "document", "check": case.check, "progress": False}

    def ours():
        return explain.reply(question, reply, **options)

    prompt = ours().reading.prompt.text
    work = case.theirs(copy.deepcopy(subject.model), copy.deepcopy(subject.tokenizer), prompt, reply, documents)
    work()  # the first call takes longer
    pairs = [(cpu(work), cpu(ours)) for _ in range(rounds)]
    seconds, own = zip(*pairs, strict=True)
    ratio = spread([their_seconds / our_seconds for their_seconds, our_seconds in pairs])
    name = f"{case.tool} {version(case.tool)}: {case.theirs.__doc__}"
    return Row(name, f"{spread(own, 3)} s", f"{spread(seconds, 3)} s", ratio=ratio)


if __name__ == "__main__":
    tools = list(dict.fromkeys(case.tool for case in CASES))
    only = {"nargs": "+", "default": (), "choices": tools, "metavar": "TOOL", "help": ", ".join(tools)}
    table.main(results, __doc__, write={"dest": "store", "action": "store_const", "const": PATH}, only=only)
