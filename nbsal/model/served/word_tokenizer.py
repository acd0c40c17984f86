"""Words in the place of tokens, for a served model whose tokenizer is not at hand."""

from collections.abc import Mapping, Sequence
from typing import Any

from nbsal.model.loading.black_box import Vocabulary
from nbsal.model.text.tokens import WORD

BETWEEN = "\n\n"  # between messages; how the server renders them is not known here
SERVERS = "the server's own"  # in the place of a chat template


class WordTokenizer:
    """Splits texts into words, each with the white space before it, and joins them again to the same text."""

    is_fast = True
    chat_template = SERVERS
    all_special_ids: tuple[int, ...] = ()
    all_special_tokens: tuple[str, ...] = ()
    unk_token_id = unk_token = None

    def __init__(self) -> None:
        self._vocabulary = Vocabulary()

    def __call__(self, text: str, return_offsets_mapping: bool = False, **_: Any) -> dict[str, Any]:
        """The numbers of the words of a text, and their characters."""
        text.encode()  # refuses lone surrogates, as other tokenizers do
        ends = [match.end() for match in WORD.finditer(text)]
        ends += [len(text)] if ends[-1:] != [len(text)] and text else []
        spans = list(zip([0, *ends], ends, strict=False))
        ids = [self._vocabulary.number(text[slice(*span)]) for span in spans]
        return {"input_ids": ids} | ({"offset_mapping": spans} if return_offsets_mapping else {})

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return "".join(map(self._vocabulary.piece, ids))

    def tokenize(self, text: str) -> list[str]:
        return list(map(self._vocabulary.piece, self(text)["input_ids"]))

    def convert_ids_to_tokens(self, ids: Any) -> Any:
        """A word, or several."""
        return self._vocabulary.piece(ids) if isinstance(ids, int) else list(map(self._vocabulary.piece, ids))

    def convert_tokens_to_ids(self, token: str) -> int:
        """The number of a word, which may be new."""
        return self._vocabulary.number(token)

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], **_: Any) -> str:
        """The contents and the calls of tools alone, since the server renders messages itself."""
        texts = (text for each in messages for text in (each["content"], *map(_call_text, each.get("tool_calls", ()))))
        return "".join(f"{text}{BETWEEN}" for text in texts)

    def get_vocab(self) -> dict[str, int]:
        """None: the words grow with the texts."""
        return {}

    def __deepcopy__(self, memo: Any) -> "WordTokenizer":
        return self  # the numbers of words must stay the same wherever they go

    def __len__(self) -> int:
        return len(self._vocabulary)


def _call_text(call: Mapping[str, Any]) -> str:
    """The name of a called tool, and the arguments."""
    function = call.get("function", call)
    return f"{function['name']} {function['arguments']}"
