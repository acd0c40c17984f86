"""Let a model write the replies to several prompts at once, where this cannot change what it writes to each."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from nbsal.answers.generate import Generated, drawn_chances, fits, run_generate
from nbsal.answers.reading import Prompt
from nbsal.model.running import batching
from nbsal.model.subject import Subject

OPTIONS = {"do_sample", "max_new_tokens"}  # settings of `generate` that treat each prompt by itself
NO_EFFECT = {
    *("do_sample", "max_new_tokens", "max_length", "temperature", "top_k", "top_p", "min_p", "typical_p", "top_h"),
    *("epsilon_cutoff", "eta_cutoff", "bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"),
    *("use_cache", "return_dict_in_generate", "early_stopping", "length_penalty", "max_matching_ngram_size"),
    *("is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold"),
    *("assistant_lookbehind", "target_lookbehind", "disable_compile", "transformers_version"),
}  # settings in a model's own configuration that play no part in greedy search
NEUTRAL = (None, False, 0, 1)  # values of all others that switch them off


def writes_each_alone(subject: Subject, settings: dict[str, Any]) -> bool:
    """Whether a model writes greedily and unconstrained, so that padding before a prompt has no effect.

    Drawn tokens have a seed for each prompt, and penalties would count the padding.

    >>> import nbsal
    >>> notes = nbsal.load("demo/notes")
    >>> writes_each_alone(notes, {"do_sample": False}), writes_each_alone(notes, {"do_sample": True})
    (True, False)
    """
    if subject.task != "next-token" or subject.unbatchable or settings.get("do_sample") or set(settings) - OPTIONS:
        return False
    configuration = vars(subject.transformer.generation_config)
    return all(name in NO_EFFECT or name.startswith("_") or value in NEUTRAL for name, value in configuration.items())


def generate_batch(
    subject: Subject, prompts: Sequence[Prompt], settings: dict[str, Any], check: Callable[[], None]
) -> list[Generated | None]:
    """The replies to some prompts; None for those that must be written alone. `check` is called for every token."""
    places = [place for place, prompt in enumerate(prompts) if fits(subject, prompt, settings)]
    replies: list[Generated | None] = [None] * len(prompts)
    if len(places) > 1:
        for part in batching.run_in_halves(places, lambda some: _run(subject, prompts, some, settings, check)):
            for place, reply in part.items():
                replies[place] = reply
    return replies


def _run(
    subject: Subject,
    prompts: Sequence[Prompt],
    places: Sequence[int],
    settings: dict[str, Any],
    check: Callable[[], None],
) -> dict[int, Generated | None]:
    longest = max(len(prompts[place].ids) for place in places)
    ids = torch.full((len(places), longest), subject.text_encoder.pad_id)
    mask = torch.zeros_like(ids)
    for row, place in enumerate(places):
        size = len(prompts[place].ids)
        ids[row, longest - size :] = torch.tensor(prompts[place].ids)
        mask[row, longest - size :] = 1

    def follow(input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        check()
        return torch.zeros(len(input_ids), device=input_ids.device, dtype=torch.bool)

    output = run_generate(subject, ids, mask, settings, None, follow)
    end = subject.transformer.generation_config.eos_token_id
    ends = {end} if isinstance(end, int) else set(end or ())
    replies: dict[int, Generated | None] = {}
    for row, place in enumerate(places):
        tokens = output.sequences[row, longest:].tolist()
        size = next((i + 1 for i, token in enumerate(tokens) if token in ends), len(tokens))
        reply = tokens[:size]
        replies[place] = Generated(reply, drawn_chances(output, row, 0, reply)) if reply else None
    return replies
