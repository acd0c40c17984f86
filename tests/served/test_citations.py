"""Citations of replies behind a server: the verdicts of the same model in this process, and what they cost."""

import nbsal
from nbsal.support.errors import OverBudget
from tests.raising import refuses
from tests.real.citations import notes_cases
from tests.served import model_server
from tests.served.model_server import KEY

CASES = [case for case, _ in zip(notes_cases(9), range(2), strict=False)]


def answered(case, subject):
    asked = [{"role": "user", "content": case.question}]
    explain = nbsal.Explainer(subject, "occlusion")
    return explain.reply(asked, case.reply, documents=list(case.documents), check=False, progress=False)


def test_verdicts_are_those_of_the_model_in_this_process_and_stay_within_the_budget():
    tokenizer = nbsal.load("demo/notes").tokenizer
    with model_server.running() as url:

        def load(**settings):
            return nbsal.load(nbsal.Endpoint(f"{url}/vllm/v1", "notes", tokenizer=tokenizer, key=KEY, **settings))

        subject = load()
        for case in CASES:
            answer, sent = answered(case, subject), subject.model.server.caller.sent
            assert answer.citations()["verdict"].tolist() == [case.verdict]
            assert subject.model.server.caller.sent - sent <= 2 * len(case.documents) + 2
        size = len(CASES[0].documents)
        limited = load(budget=2 * size)
        answer = answered(CASES[0], limited)
        sent = limited.model.server.caller.sent
        with refuses("budget", OverBudget):
            answer.citations()
        assert limited.model.server.caller.sent == sent
