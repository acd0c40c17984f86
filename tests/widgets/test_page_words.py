"""The page says what Python says: outside of live pages no source of the front end writes a sentence or a number."""

import re
from fnmatch import fnmatch
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "nbsal" / "frontend" / "src"
ALLOWED = ("live/*",)  # pages without Python
FORMATS = re.compile(
    r"\.to(?:Fixed|Precision|LocaleString)\(|\bIntl\b|\}\\u202f%|\b(?:format(?:Percent|Scores?)|plural|confidence)\("
)
SKIPPED = re.compile(
    r"//[^\n]*|/\*.*?\*/|/(?![/*])(?:\\.|\[(?:\\.|[^\]\n\\])*\]|[^/\n\\\[])+/[a-z]*(?=[.),;\s])", re.DOTALL
)
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
WORD = re.compile(r"(?<![\w.$#-])[A-Za-z][A-Za-z’]*(?![\w-])")
WORDS = 3  # from which on a text may be a sentence
FILLED = "\0"  # stands for a value that a template is filled with
NAME = re.compile(r"[A-Z][^.;:?!·]*")  # of a control or a panel, as "Switch this head off"
CONSTANT = re.compile(r"(?:export )?const [A-Z_]+\b")  # cannot say anything of a result: what keys and buttons do
TOOLTIP = re.compile(r"\b(?:title|aria-label|placeholder)\b")  # names a control as well
SELECTOR = re.compile(r":not\(|\[|^http")
REGULAR = "String.raw"


def literals(source):
    """Where each string and template stands, and its text."""
    found = []

    def skip(at, closing=""):
        """Read code from a place on; within a template up to the end of what fills it."""
        depth = 0
        while at < len(source):
            sign = source[at]
            if sign == "/" and (skipped := SKIPPED.match(source, at)) and not _is_division(source, at):
                at = skipped.end()
            elif sign == '"' and (string := STRING.match(source, at)):
                found.append((at, string[1]))
                at = string.end()
            elif sign == "`":
                at = template(at + 1)
            elif sign == closing and not depth:
                return at + 1
            else:
                depth += (sign == "{") - (sign == "}")
                at += 1
        return at

    def template(at):
        start, text = at - 1, ""
        while source[at] != "`":
            if source.startswith("${", at):
                text, at = text + FILLED, skip(at + 2, "}")
            else:
                step = 2 if source[at] == "\\" else 1
                text, at = text + source[at : at + step], at + step
        found.append((start, text))
        return at + 1

    skip(0)
    return found


def _is_division(source, at):
    return source[at + 1] not in "/*" and re.search(r"[\w)\]]\s*$", source[:at]) is not None


def says(source, at, text):
    """Whether a literal may be a sentence about a result."""
    plain = re.sub(r"\\u[0-9a-f]{4}|\\.", " ", text)
    before = source[:at]
    if len(WORD.findall(plain)) < WORDS or SELECTOR.search(text) or before.endswith(REGULAR):
        return False
    statement = before[max(0, *(match.start() for match in re.finditer(r"^[a-z]", before, re.MULTILINE)), 0) :]
    if TOOLTIP.search(before[before.rfind("\n") + 1 :]):
        return False
    return FILLED in text or not (CONSTANT.match(statement) or NAME.fullmatch(plain.strip()))


def faults(path):
    """What a source writes itself."""
    source = path.read_text(encoding="utf-8")
    return FORMATS.findall(source) + [text for at, text in literals(source) if says(source, at, text)]


def matches(path, patterns):
    return any(fnmatch(path.relative_to(SOURCES).as_posix(), pattern) for pattern in patterns)


def test_sentences_and_numbers_come_from_python():
    paths = [path for path in SOURCES.rglob("*.ts") if not matches(path, ALLOWED)]
    wrong = {path.relative_to(SOURCES).as_posix(): found for path in paths if (found := faults(path))}
    assert len(paths) > 60 and not wrong
    imported = [path.name for path in paths if re.search(r'"\.\./live/', path.read_text(encoding="utf-8"))]
    assert not imported  # nor does any other source use what live pages have


def test_what_counts_as_a_sentence(tmp_path):
    for code, count in [
        ('x.textContent = "the words of a text";', 1),
        ("x.textContent = `${k} of the words`;", 1),
        ("x.textContent = `${a ? `${k} of all words` : ''} of`;", 1),
        ("x.textContent = `${share.toFixed(1)} %`;", 1),
        ("x.textContent = formatPercent(share);", 1),
        ("x.textContent = `${Math.round(share)}\\u202f%`;", 1),
        ('const HINT = "Click a head to see its attention.";', 0),
        ("const HINT = `${k} of the words`;", 1),
        ('h("button", {}, "Switch this head off");', 0),
        ('h("p", {}, "It does not.");', 1),
        ("x.title = `Why not ${name}? Explain it instead`;", 0),
        ('import { h } from "../page/dom"; // it is a comment of words', 0),
        ("x.textContent = `${name} \\u00b7 ${share}`;", 0),
        ('closest(event, "button, summary, select, input:not([type=range])");', 0),
        ('const found = /"a b c d"/.test(text);', 0),
    ]:
        path = tmp_path / "source.ts"
        path.write_text(code, encoding="utf-8")
        assert len(faults(path)) == count, code
