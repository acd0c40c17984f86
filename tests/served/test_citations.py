"""Citations of replies behind a server: the verdicts of the same model in this process, and what they cost."""

import nbsal
from nbsal.support.errors import OverBudget
from tests.raising import refuses
from tests.real.citations import notes_cases
from tests.served.model_server import KEY

CASES = [case for case, _ in zip(notes_cases(9), range(2), strict=False)]


def answered(case, address, tokenizer, **settings):
    endpoint = nbsal.Endpoint(f"{address}/vllm/v1", "notes", tokenizer=tokenizer, key=KEY, **settings)
    explain, asked = nbsal.Explainer(nbsal.load(endpoint), "occlusion"), [{"role": "user", "content": case.question}]
    answer = explain.reply(asked, case.reply, documents=list(case.documents), check=False, progress=False)
    return answer, explain.subject.model.server.caller


def test_verdicts_are_those_of_the_model_in_this_process_and_stay_within_the_budget(address, notes):
    for case in CASES:
        answer, caller = answered(case, address, notes.tokenizer)
        sent = caller.sent
        assert answer.citations()["verdict"].tolist() == [case.verdict]
        assert caller.sent - sent <= 2 * len(case.documents) + 2
    answer, caller = answered(CASES[0], address, notes.tokenizer, budget=2 * len(CASES[0].documents))
    sent = caller.sent
    with refuses("budget", OverBudget):
        answer.citations()
    assert caller.sent == sent
