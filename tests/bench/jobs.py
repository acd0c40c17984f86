"""Five jobs, and what a user of each tool writes for them: `python -m tests.bench.jobs [--only JOB ...]`.

The body of a function JOB_TOOL is run as a program in a process of its own, which has imported torch and transformers;
its lines are counted, its CPU time is measured, and what it prints last, or the page that it writes, is what the user
has in the end. The arguments are folders that `save_pretrained` wrote (demo/reviews, demo/notes), a review, the
validation split of SST-2 with its labels (the packaged reviews without `NBSAL_DATA`), and a question with ten documents
and a reply. A tool that is not installed or fails gets a row that says so. `--write` stores the rows.
"""

import contextlib
import io
import json
import os
import resource
import tempfile
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers

import nbsal
from tests.bench import table
from tests.bench.measure import alone
from tests.bench.peers import body, lines
from tests.bench.table import Row

PATH = Path(__file__).with_name("jobs.json")
TEXT = "A slow start, but the second half is warm, funny and beautifully played."
IMPORTED = ("AutoModelForCausalLM", "AutoModelForSequenceClassification", "AutoTokenizer", "pipeline")


def why_nbsal(classifier, text):
    import nbsal

    explanation = nbsal.Explainer(nbsal.load(classifier))(text, check=True)
    print(explanation.statement().text())


def why_captum(classifier, text):
    from captum.attr import LayerIntegratedGradients
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(classifier)
    model = AutoModelForSequenceClassification.from_pretrained(classifier).eval()
    ids = tokenizer(text, return_tensors="pt").input_ids
    explain = LayerIntegratedGradients(lambda ids: model(ids).logits, model.bert.embeddings)
    scores = explain.attribute(ids, 0 * ids, target=model(ids).logits.argmax().item()).sum(-1)[0]
    for index in scores.topk(4).indices:
        print(tokenizer.decode(ids[0, index]), round(scores[index].item(), 2))


def why_shap(classifier, text):
    import shap
    from transformers import pipeline

    values = shap.Explainer(pipeline("text-classification", classifier, top_k=None))([text])[0]
    scores = values.values[:, values.values.sum(0).argmax()]
    for index in (-scores).argsort()[:4]:
        print(values.data[index].strip(), round(scores[index], 2))


def why_interpreto(classifier, text):
    import interpreto
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(classifier).eval()
    (output,) = interpreto.IntegratedGradients(model, AutoTokenizer.from_pretrained(classifier))(text)
    for index in output.attributions[0].topk(4).indices:
        print(output.elements[index], round(output.attributions[0, index].item(), 4))


def why_explainkit(classifier, text):
    from explainkit import Explainer
    from explainkit.hf import pipeline_predict_fn

    output = Explainer(pipeline_predict_fn(classifier)).explain(text)
    for index in output.top_k(4):
        print(output.tokens[index], round(output.scores[index], 3))


def judge_nbsal(classifier, texts):
    import nbsal

    explain = nbsal.Explainer(nbsal.load(classifier))
    games = nbsal.evaluation.games([explain], texts[:20], progress=False)
    print(games.auc().round(3).to_string(index=False, header=False))


def judge_interpreto(classifier, texts):
    from interpreto import IntegratedGradients
    from interpreto.attributions.metrics import Deletion
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(classifier).eval()
    tokenizer = AutoTokenizer.from_pretrained(classifier)
    outputs = IntegratedGradients(model, tokenizer)(texts[:20])
    print("deletion", round(Deletion(model, tokenizer).evaluate(outputs)[0], 3))


def judge_explainkit(classifier, texts):
    from explainkit import Explainer, aopc, permute_scores
    from explainkit.hf import pipeline_predict_fn

    predict = pipeline_predict_fn(classifier)
    outputs = Explainer(predict).explain_batch(texts[:20])
    print("occlusion", round(sum(aopc(output, predict) for output in outputs) / 20, 3))
    print("permuted", round(sum(aopc(permute_scores(output), predict) for output in outputs) / 20, 3))


def mistakes_nbsal(classifier, texts, labels):
    import nbsal

    audit = nbsal.audit(nbsal.Explainer(nbsal.load(classifier)), texts, labels, progress=False)
    print(audit.sentence)


def mistakes_shap(classifier, texts, labels):
    from collections import defaultdict

    import shap
    from transformers import pipeline

    classify, sums = pipeline("text-classification", classifier, top_k=None), defaultdict(float)
    numbers = classify.model.config.label2id
    predicted = [numbers[max(row, key=lambda each: each["score"])["label"]] for row in classify(texts, batch_size=32)]
    wrong = [i for i, label in enumerate(labels) if predicted[i] != label]
    values = shap.Explainer(classify)([texts[i] for i in wrong])
    for row, i in enumerate(wrong):
        for word, score in zip(values.data[row], values.values[row][:, predicted[i]], strict=True):
            sums[word.strip()] += score
    print(len(wrong), "mistakes:", *sorted(sums, key=sums.get, reverse=True)[:5])


def mistakes_explainkit(classifier, texts, labels):
    from explainkit import Explainer, token_importance
    from explainkit.hf import pipeline_predict_fn

    outputs = Explainer(pipeline_predict_fn(classifier)).explain_batch(texts)
    wrong = [i for i, label in enumerate(labels) if outputs[i].predicted_class != label]
    tokens = token_importance([outputs[i] for i in wrong], [labels[i] for i in wrong], correct_only=False)
    print(len(wrong), "mistakes:", *(f"{token.token} ({token.n})" for token in tokens[:5]))


def source_nbsal(writer, asked, reply, documents):
    import nbsal

    answer = nbsal.answer(nbsal.load(writer), asked, reply, documents=documents, progress=False)
    print(answer.statement().text())


def source_captum(writer, asked, reply, documents):
    from captum.attr import FeatureAblation, LLMAttribution, TextTemplateInput
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(writer), AutoTokenizer.from_pretrained(writer)
    options = {"tokenize": False, "add_generation_prompt": True}

    def template(*texts):
        documents = [{"text": text} for text in texts if text]
        return tokenizer.apply_chat_template(asked, documents=documents, **options).removeprefix(tokenizer.bos_token)

    units = TextTemplateInput(template, documents, baselines=[""] * len(documents))
    target = tokenizer(reply, add_special_tokens=False, return_tensors="pt").input_ids[0]
    scores = (
        LLMAttribution(FeatureAblation(model), tokenizer)
        .attribute(units, target=target, forward_in_tokens=False)
        .seq_attr
    )
    print("document", scores.argmax().item() + 1, round(scores.max().item(), 1))


def source_contextcite(writer, asked, reply, documents):
    from context_cite import ContextCiter
    from context_cite.context_partitioner import BaseContextPartitioner
    from transformers import AutoModelForCausalLM, AutoTokenizer

    class Documents(BaseContextPartitioner):
        num_sources = len(documents)

        def split_context(self):
            pass

        def get_source(self, index):
            return documents[index]

        def get_context(self, mask=None):
            return "\n".join(f"- {text}" for i, text in enumerate(documents) if mask is None or mask[i])

    model, tokenizer = AutoModelForCausalLM.from_pretrained(writer), AutoTokenizer.from_pretrained(writer)
    tokenizer.chat_template = "<s>Notes:\n{{ messages[0].content }}"
    parts = Documents(Documents("").get_context())
    settings = {"partitioner": parts, "prompt_template": "{context}\nQuestion: {query}\nAnswer:"}
    scores = ContextCiter(model, tokenizer, parts.context, asked[0]["content"], **settings).get_attributions(
        verbose=False
    )
    print("document", scores.argmax() + 1, round(scores.max(), 1))


def source_interpreto(writer, asked, reply, documents):
    import interpreto
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(writer), AutoTokenizer.from_pretrained(writer)
    options = {"tokenize": False, "add_generation_prompt": True}
    prompt = tokenizer.apply_chat_template(asked, documents=[{"text": text} for text in documents], **options)
    explain = interpreto.Occlusion(model, tokenizer, granularity=interpreto.Granularity.SENTENCE)
    (output,) = explain(prompt.removeprefix(tokenizer.bos_token), reply)
    for index in output.attributions.nansum(0).topk(2).indices:
        print(output.elements[index])


def source_inseq(writer, asked, reply, documents):
    import inseq
    from transformers import AutoTokenizer

    options = {"tokenize": False, "add_generation_prompt": True, "documents": [{"text": text} for text in documents]}
    prompt = AutoTokenizer.from_pretrained(writer).apply_chat_template(asked, **options)
    explain = inseq.load_model(writer, "input_x_gradient")
    output = explain.attribute(prompt, prompt + reply, show_progress=False)[0].aggregate()
    for index in output.target_attributions.nansum(1).topk(6).indices:
        print(output.target[index].token.strip())


def send_nbsal(classifier, text):
    import nbsal

    nbsal.why(nbsal.load(classifier), text).to_html("why.html")


def send_captum(classifier, text):
    from pathlib import Path

    from captum.attr import LayerIntegratedGradients, visualization
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(classifier)
    model = AutoModelForSequenceClassification.from_pretrained(classifier).eval()
    ids = tokenizer(text, return_tensors="pt").input_ids
    explain = LayerIntegratedGradients(lambda ids: model(ids).logits, model.bert.embeddings)
    chances = model(ids).logits[0].softmax(0)
    target = chances.argmax().item()
    scores, label = explain.attribute(ids, 0 * ids, target=target).sum(-1)[0], model.config.id2label[target]
    tokens = tokenizer.convert_ids_to_tokens(ids[0])
    cells = (scores / scores.norm(), chances[target], label, "", label, scores.sum(), tokens, 0)
    page = visualization.visualize_text([visualization.VisualizationDataRecord(*cells)])
    Path("why.html").write_text(page.data)


def send_shap(classifier, text):
    from pathlib import Path

    import shap
    from transformers import pipeline

    values = shap.Explainer(pipeline("text-classification", classifier, top_k=None))([text])
    Path("why.html").write_text(shap.plots.text(values, display=False))


def send_interpreto(classifier, text):
    import interpreto
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(classifier).eval()
    (output,) = interpreto.IntegratedGradients(model, AutoTokenizer.from_pretrained(classifier))(text)
    interpreto.plot_attributions(output, save_path="why.html")


def send_explainkit(classifier, text):
    from pathlib import Path

    from explainkit import Explainer
    from explainkit.hf import pipeline_predict_fn
    from explainkit.viz import heatmap_html

    Path("why.html").write_text(heatmap_html(Explainer(pipeline_predict_fn(classifier)).explain(text)))


TITLES = {
    "why": "Why did the classifier decide this?",
    "judge": "Is the explanation good?",
    "mistakes": "What is behind the mistakes in a data set?",
    "source": "Which of ten documents does the reply come from?",
    "send": "Send it to a colleague.",
}
PACKAGES = {"contextcite": "context-cite"}
JOBS = [name for name in list(globals()) if name.partition("_")[0] in TITLES]


@dataclass(frozen=True)
class Outcome:
    """What a tool costs for a job, and what the user has in the end."""

    tool: str
    lines: int
    seconds: float | None
    outcome: str


def arguments(folder: Path, count: int | None) -> dict[str, Any]:
    """The arguments of the jobs: folders of models, and texts."""
    for name, argument in (("demo/reviews", "classifier"), ("demo/notes", "writer")):
        subject = nbsal.load(name)
        subject.model.save_pretrained(folder / argument)
        subject.tokenizer.save_pretrained(folder / argument)
    name, column = ("sst2", "sentence") if os.environ.get("NBSAL_DATA") else ("samples/reviews", "text")
    reviews = nbsal.data.load(name)[:count]
    note = next(row for row in nbsal.samples.texts("notes") if len(row["documents"]) == 10 and len(row["source"]) == 1)
    return {
        "classifier": str(folder / "classifier"),
        "writer": str(folder / "writer"),
        "text": TEXT,
        "texts": reviews[column].tolist(),
        "labels": reviews["label"].tolist(),
        "asked": [{"role": "user", "content": note["question"]}],
        "reply": f" {note['answer']}",
        "documents": note["documents"],
    }


def run(name: str, inputs: dict[str, Any]) -> Outcome:
    """Run one job with one tool in this process."""
    tool = name.partition("_")[2]
    package, work = PACKAGES.get(tool, tool), globals()[name]
    for each in IMPORTED:
        getattr(transformers, each)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    printed, start = io.StringIO(), resource.getrusage(resource.RUSAGE_SELF)
    try:
        with contextlib.chdir(Path(inputs["writer"]).parent), contextlib.redirect_stdout(printed):
            page = Path("why.html")
            page.unlink(missing_ok=True)
            exec(body(work), dict(inputs))
            outcome = f"a page of {page.stat().st_size / 1000:.0f} kB" if page.exists() else printed.getvalue().strip()
    except Exception as error:  # a tool may raise anything
        return Outcome(package, lines(work), None, f"{type(error).__name__}: {' '.join(str(error).split())[:120]}")
    end = resource.getrusage(resource.RUSAGE_SELF)
    seconds = end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime
    return Outcome(
        f"{package} {version(package)}", lines(work), round(seconds, 1), "; ".join(outcome.splitlines()[-4:])
    )


def results(rounds: int = 1, quick: bool = False, store: Path | None = None, only: Iterable[str] = ()) -> list[Row]:
    """The rows of all jobs, or of some (JOB or JOB_TOOL); each is run once, whatever the number of rounds."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        inputs = arguments(Path(folder), 20 if quick else None)
        for job, title in TITLES.items():
            chosen = [name for name in JOBS if name.startswith(f"{job}_") and (not only or {job, name} & {*only})]
            for name in chosen:
                outcome = alone(run, name, inputs, start="fork")
                rows.append(_row(title, outcome))
                if store:
                    table.store(store, job, _merged(store, job, outcome))
    return rows


def _merged(path: Path, job: str, outcome: Outcome) -> list[Outcome]:
    """The stored outcomes of a job with a new one in place of that of the same tool."""
    stored = json.loads(path.read_text()).get(job, {"rows": ()})["rows"] if path.exists() else ()
    outcomes = {row["tool"].split()[0]: Outcome(**row) for row in stored} | {outcome.tool.split()[0]: outcome}
    tools = [name.removeprefix(f"{job}_") for name in JOBS if name.startswith(f"{job}_")]
    order = [PACKAGES.get(tool, tool) for tool in tools]
    return sorted(outcomes.values(), key=lambda each: order.index(each.tool.split()[0]))


def _row(title: str, outcome: Outcome) -> Row:
    cost = f"{outcome.lines} lines, " + ("fails" if outcome.seconds is None else f"{outcome.seconds:.1f} s")
    return Row(f"{title} {outcome.tool}: {outcome.outcome}", **{"ours" if "nbsal" in outcome.tool else "peer": cost})


if __name__ == "__main__":
    only = {"nargs": "+", "default": (), "choices": [*TITLES, *JOBS], "metavar": "JOB", "help": ", ".join(TITLES)}
    table.main(results, __doc__, write={"dest": "store", "action": "store_const", "const": PATH}, only=only)
