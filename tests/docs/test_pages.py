"""The pages of the site: what is generated is whole, a broken link is refused, and every example runs."""

import markdown
import nbformat
import pytest
from mkdocs.exceptions import Abort

from nbsal.methods import catalogue
from tests import matrix
from tests.cases import cases
from tests.docs import claims, examples, llms, methods, notebooks, repository, search, site
from tests.docs.repository import ROOT

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *(ROOT / source for source in repository.WRITTEN)]
GUIDES = sorted(examples.GUIDES.glob("*.md"))
ELSEWHERE = ("hosts", "plugins", "recipes")  # tests/test_guides.py runs them in processes: they register a method
PAGES = [
    page
    for page in (*GUIDES, ROOT / ".docs" / "index.md", ROOT / "README.md", ROOT / "AGENTS.md")
    if page.stem not in ELSEWHERE and examples.blocks(page)
]


@pytest.mark.some(2)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    examples.prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert examples.run(page, {"__name__": "guide"})


def test_an_example_that_fails_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError):
        examples.run(page, {})
    shown = "```python\nprint(1)\n```\n\n```text\n{}\n```\n"
    page.write_text(shown.format(1), encoding="utf-8")
    assert examples.run(page, {}) == 1
    page.write_text(shown.format(2), encoding="utf-8")
    with pytest.raises(AssertionError):
        examples.run(page, {})
    page.write_text("```python\nimport a_library_that_nobody_has\n```\n", encoding="utf-8")
    assert examples.run(page, {}) == 0


def test_every_method_has_a_formula_and_every_variant_says_how_it_differs():
    formulas = methods.formulas()
    assert sorted(formulas) == sorted(catalogue.names())
    for name, entry in formulas.items():
        base, _, suffix = name.partition("@")
        assert ("differs" if suffix else "formula") in entry and base in formulas, name


def test_the_pages_of_methods_say_of_every_method_what_the_catalogue_says(tmp_path):
    methods.write(tmp_path / "methods")
    overview = (tmp_path / "methods" / "index.md").read_text(encoding="utf-8")
    for name, row in catalogue.table().iterrows():
        page = (tmp_path / "methods" / f"{row['family']}.md").read_text(encoding="utf-8")
        start = page.index(f'id="{name.replace("@", "-")}"' if "@" in name else f"{{ #{name} }}")
        section = page[start : page.find("## ", start)]
        assert row["cost"] in section and (row["paper"] in section or "@" in name or row["paper"] == "-"), name
        assert "@" in name or f"({row['family']}.md#{name})" in overview, name


def test_a_method_says_where_it_runs():
    refusals = [matrix.Refusal("decoder", "gae", name) for name in ("t5", "bart")]
    assert "30 of 32 architectures" in methods.where(refusals) and "; not bart, t5 |" in methods.where(refusals)
    refusals += [matrix.Refusal("decoder", "gae", name) for name in matrix.ARCHITECTURES if name != "bert"]
    assert "1 of 32 architectures](../matrix.md): bert |" in methods.where(refusals)


def test_a_page_is_described_by_its_heading_and_first_sentence(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("---\nsearch:\n  boost: 2\n---\n# `a` page { .hero }\n\n| x |\n\n`b` is [c](d.md), 0.5 e. More.\n")
    assert llms.describe(page) == ("a page", "`b` is c, 0.5 e.")


@pytest.mark.some(2)
@pytest.mark.parametrize("link", ["[a](missing.md)", "[a](#missing)", "[a](/index.md)", "[a][nbsal.missing]", "other"])
def test_a_link_without_a_target_and_a_page_outside_the_navigation_stop_the_build(tmp_path, link):
    pages = tmp_path / "pages"
    (pages / "assets").mkdir(parents=True)
    (pages / "index.md").write_text(f"# Start\n\n{link}\n", encoding="utf-8")
    if link == "other":
        (pages / "other.md").write_text("# A page\n", encoding="utf-8")
        assert list(site.expand([{"All": ["index.md", "./*"]}], pages)) == [{"All": ["index.md", "other.md"]}]
    with pytest.raises(Abort):
        site.render(pages, ["index.md"], tmp_path / "site")


@cases("path", DOCUMENTS)
def test_links_of_the_repository_lead_to_files(path):
    targets = [target for _, _, target in repository.LINK.findall(path.read_text(encoding="utf-8"))]
    local = [target.partition("#")[0] for target in targets if "://" not in target]
    assert [target for target in local if target and not (path.parent / target).exists()] == []


def test_links_between_documents_become_links_between_pages():
    text = "[a](../CHANGELOG.md#x) [b](nowhere.py) [c](https://example.org) ![d](gallery/d.png)"
    adapted = "[a](../changelog.md#x) b [c](https://example.org) ![d](d.png)"
    assert repository.adapt(text, "notebooks/INDEX.md", "reference/exhibits.md") == adapted


def test_outputs_of_a_notebook_become_text_tables_and_pictures():
    frame = '<style scoped>td {}</style><table border="1" class="dataframe"><tr><th></th><td>1</td></tr></table>'
    picture = {"output_type": "display_data", "data": {"image/png": "iVBO"}, "metadata": {"image/png": {"width": 5}}}
    outputs = [
        nbformat.v4.new_output("stream", text="printed\n"),
        nbformat.v4.new_output("display_data", {"text/html": frame, "text/plain": "1"}),
        nbformat.from_dict(picture),
        nbformat.v4.new_output(
            "display_data", {"text/markdown": "| claim |\n|---|\n| *it* |", "text/plain": "Markdown"}
        ),
    ]
    source = "# A title\n\n<details><summary>Answers</summary>\n\nSee `02_gradcam_decoding`.\n\n</details>"
    cells = [nbformat.v4.new_markdown_cell(source), nbformat.v4.new_code_cell("x = 1", outputs=outputs)]
    page, pictures = notebooks.page_of(nbformat.v4.new_notebook(cells=cells), "one")
    assert "```python\nx = 1\n```" in page and "printed\n```" in page
    assert '<div class="output"><table><tr><td></td><td>1</td></tr></table></div>' in page
    assert "\n\n| claim |\n|---|\n| *it* |\n" in page
    assert list(pictures) == ["one-1.png"] and 'src="one-1.png"' in page and "A title" in page.split("alt=")[1]
    assert '<details markdown="1">' in page and "[`02_gradcam_decoding`](02_gradcam_decoding.ipynb)" in page


def test_a_long_notebook_becomes_several_pages():
    picture = '<img height="560">\n'
    text = f"# A title\n\nwords\n\n## One\n\n{picture * 20}\n## Two\n\n{picture * 10}\n## Three\n\nwords\n"
    first, second = notebooks.split(text)
    assert first + second.removeprefix("# A title, part 2\n\n") == text and second.count("## ") == 2
    assert notebooks.split("# A title\n\n## One\n\nwords\n") == ["# A title\n\n## One\n\nwords\n"]


def test_formulas_become_mathml_and_empty_headers_go():
    def convert(text):
        extensions = ["tables", "pymdownx.arithmatex", "tests.docs.markup"]
        settings = {"pymdownx.arithmatex": {"generic": True}}
        return markdown.markdown(text, extensions=extensions, extension_configs=settings)

    html = convert("$x_i$ and\n\n$$\ny < 2\n$$\n\n| | |\n|---|---|\n| a | b |\n\n| c | |\n|---|---|\n| d | e |")
    assert html.count("<math") == 2 and html.count('display="block"') == 1 and "arithmatex" not in html
    assert html.count("<thead>") == 1 and "<td>a</td>" in html
    with pytest.raises(ValueError, match="arg"):
        convert(r"$\arg x$")
    for name, entry in methods.formulas().items():
        assert "@" in name or "<math" in convert(f"$${entry['formula']}$$"), name


def test_the_guide_on_methods_has_the_claims_of_the_notebooks():
    text = claims.PATH.read_text(encoding="utf-8")
    assert [match[2] for match in claims.PART.finditer(text)] == ["05_decoding_paper", "06_mask_lrp_paper"]
    assert text == claims.page(), claims.OUTDATED


def test_a_search_that_does_not_find_its_guide_first_is_noticed(tmp_path):
    (tmp_path / "pages" / "assets").mkdir(parents=True)
    (tmp_path / "pages" / "index.md").write_text("# Which method should I use?\n\nAny.\n", encoding="utf-8")
    site.render(tmp_path / "pages", ["index.md"], tmp_path / "site")
    assert search.first_pages(tmp_path / "site", ["which method", "lora"]) == {
        "which method": ["index.html"],
        "lora": [],
    }
    with pytest.raises(LookupError, match="lora"):
        search.check(tmp_path / "site")
