"""What is read of replies in JSON, whole or broken, and where documents write a value."""

import time

import pytest

from nbsal.explain.citations.leaves import read_leaves
from nbsal.explain.citations.written import WrittenText
from tests.cases import cases


@cases(
    "reply, expected",
    [
        ('{"a": 1, "b": true, "c": null, "d": ""}', {"a": "1", "b": "true", "c": None, "d": ""}),
        ('{"items": [{"price": 2.50}, {"price": -3e2}]}', {"items[0].price": "2.50", "items[1].price": "-3e2"}),
        ('{"a.b": {"c": [[1], 2]}, "d e": 3}', {'"a.b".c[0][0]': "1", '"a.b".c[1]': "2", '"d e"': "3"}),
        ('Here it is:\n```json\n{"a": "x"}\n```\nSee [1] and {b}.', {"a": "x"}),
        ('Not {"x": 1}, but\n```\n{"a": "x"}\n```', {"a": "x"}),
        ('The cities:\n```json\n["x", "y"]\n```', {"[0]": "x", "[1]": "y"}),
        ('By [1] it is {"a": "x"}, as [2] says.', {"a": "x"}),
        ('["x", "y"]', {"[0]": "x", "[1]": "y"}),
        ('{"a": 1}\n{"a": 2}', {"[0].a": "1", "[1].a": "2"}),
        ('[{"a": 1}]', {"[0].a": "1"}),
        ('{"a": "x", "b": "Osl', {"a": "x", "b": "Osl"}),
        ('{"a": "x", "b": "Osl\\', {"a": "x", "b": "Osl"}),
        ('{"a": ["x", "y"', {"a[0]": "x", "a[1]": "y"}),
        ('{"a": "x", "b', {"a": "x"}),
        ("{'a': 'Mara's', 'b': None,}", {"a": "Mara's", "b": None}),
        ('{a: Mara L, b: 12:30, "c": 1,200.50, d: [1,200]}',
         {"a": "Mara L", "b": "12:30", "c": "1,200.50", "d[0]": "1", "d[1]": "200"}),
        ('{"a": "says "yes" to it", "b": 2}', {"a": 'says "yes" to it', "b": "2"}),
        ('{"a": "Oslo,\n "b": 2}', {"a": "Oslo", "b": "2"}),
        ('{"a": "x" "b": "y"]}', {"a": "x", "b": "y"}),
        (r'{"a": "q\"\n\u00e9\ud83d\ude00\/"}', {"a": 'q"\né😀/'}),
        (r'{"a": "\ud83d"}', {"a": "\N{REPLACEMENT CHARACTER}"}),
        ("Name: Mara\n- **City**: Oslo\n* Day: \"Monday\",\n**Sum:** 5**",
         {"Name": "Mara", "City": "Oslo", "Day": "Monday", "Sum": "5"}),
        ('"a": "x",\n"b": null', {"a": "x", "b": None}),
        ("The ferry leaves at 12:30.\nSee http://x.org [1].", {}),
        ("[1]: see [2].", {}),
        ("{}", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_what_can_be_read_is_read(reply, expected):
    leaves = read_leaves(reply)
    assert {leaf.path: leaf.value for leaf in leaves} == expected and len(leaves) == len(expected)
    for leaf in leaves:
        written = reply[slice(*leaf.span)]
        assert written in ("null", "None") if leaf.value is None else written == leaf.value or "\\" in written


def test_a_doubled_key_has_two_values():
    assert [(leaf.path, leaf.value) for leaf in read_leaves('{"a": 1, "a": 2}')] == [("a", "1"), ("a", "2")]


@cases(
    "reply, count",
    [
        ("{" + ", ".join(f'"k{number}": "v {number}"' for number in range(20_000)) + "}", 20_000),
        ("[" * 10_000 + "1" + "]" * 10_000, 1),
        ('{"a":' * 10_000, 0),
        ("[" * 10_000 + "}" * 10_000, 0),
        ('{"a": "' + '" x' * 20_000, 1),
        ('{"a": "' + '\n "' * 20_000, 1),
        ('{"a": "' + "\n" * 50_000, 1),
        ("```\n" * 20_000, 0),
        ("word " * 40_000, 0),
    ],
)
def test_long_and_deep_replies_take_linear_time(reply, count):
    start = time.process_time()
    assert len(read_leaves(reply)) == count
    assert time.process_time() - start < 5


TEXT = "Invoice AB-2041, 12 units\nSubtotal: 1,200.50\nTOTAL : 1.200,50 EUR\nDue 5 March 2026, or 06/03/2026.\n3,4.50,7"


@cases(
    "value, written",
    [
        ("AB-2041", ["AB-2041"]),
        ("ab - 2041", ["AB-2041"]),
        ("B-2041", []),
        ("2041", ["2041"]),
        ("1200.5", ["1,200.50", "1.200,50"]),
        ("1,200.50", ["1,200.50", "1.200,50"]),
        ("€1200.50", ["1,200.50", "1.200,50"]),
        ("200.50", []),
        ("12", ["12"]),
        ("1", []),
        ("4.50", ["4.50"]),
        ("2026-03-05", ["5 March 2026"]),
        ("March 5, 2026", ["5 March 2026"]),
        ("2026-03-06", ["06/03/2026"]),
        ("2026-06-03", ["06/03/2026"]),
        ("2026-02-31", []),
        ("total : 1.200,50", ["TOTAL : 1.200,50"]),
        ("", []),
        ("...", []),
    ],
)
def test_a_value_is_found_where_a_text_writes_it(value, written):
    assert [TEXT[slice(*span)] for _, span in WrittenText(TEXT).places(value)] == written


@pytest.mark.parametrize(
    ("path", "place"),
    [("subtotal", "Subtotal: "), ("sums.total", "Total: "), ("grandTotal", "Total: "), ("bill_to", "Bill to\n")],
)
def test_what_stands_around_a_value_fits_its_key(path, place):
    text = WrittenText("Bill to\n9.00\nSubtotal: 9.00, tax 9.00\nTotal: 9.00")
    spans = [span for _, span in text.places("9.00")]
    assert text.text[: max(spans, key=lambda span: text.fit(path, span))[0]].endswith(place)
