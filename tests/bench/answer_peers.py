"""Other tools that explain a reply, beside nbsal: `python -m tests.bench.answer_peers`.

One answer of demo/notes with its documents, a warm call of each tool as its user would write it, one thread, CPU time,
without loading. No other tool knows messages or documents, so each gets the prompt as the template writes it. A tool
that is not installed gets a row that says so.
"""

import copy
from importlib.metadata import version

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


CASES = (
    (captum_gradient, "gradxact", {"layer": 0}),
    (inseq_gradient, "gradxact", {"layer": 0}),
    (interpreto_gradient, "simple", {"layer": 0}),
    (captum_one_out, "occlusion", {}),
    (interpreto_sentence, "occlusion", {}),
    (captum_shapley, "shapley", {}),
)


def results(rounds: int = 3, quick: bool = False) -> list[Row]:
    """A row for each tool: its seconds beside ours."""
    torch.set_num_threads(1)
    subject = nbsal.load("demo/notes")
    example = nbsal.samples.texts("notes")[0]
    question, documents = [{"role": "user", "content": example["question"]}], example["documents"]
    reply = " " + example["answer"]
    rows = []
    for theirs, method, settings in CASES:
        explain = nbsal.Explainer(subject, method, **settings)

        def ours(explain=explain):
            return explain.reply(question, reply, documents=documents, unit="document", progress=False)

        prompt = ours().reading.prompt.text
        tool = theirs.__name__.split("_")[0]
        try:
            # Some tools change the model.
            work = theirs(copy.deepcopy(subject.model), subject.tokenizer, prompt, reply, documents)
            work()
        except ImportError:
            rows.append(missing(f"{tool}, {theirs.__doc__}", "not installed"))
            continue
        pairs = [(cpu(work), cpu(ours)) for _ in range(rounds)]
        seconds, own = zip(*pairs, strict=True)
        ratio = spread([their_seconds / our_seconds for their_seconds, our_seconds in pairs], 1)
        peer = f"{spread(seconds, 3)} s"
        rows.append(Row(f"{tool} {version(tool)}: {theirs.__doc__}", f"{spread(own, 3)} s", peer, ratio=ratio))
    return rows


if __name__ == "__main__":
    table.main(results, __doc__)
