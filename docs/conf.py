"""The documentation site, built by `make docs`. Its sources lie where GitHub shows them.

The source folder is the root of the checkout, so that links between docs/, CONTRIBUTING.md and the
captions beside the report's sections are the same on GitHub and on the site.
"""

import sys
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from roofcal import __version__  # noqa: E402
from tools.write_reference import write_site_pages  # noqa: E402

write_site_pages(ROOT / "docs" / "generated")

project = "roofcal"
author = "the authors of roofcal"
copyright = f"2026, {author}. Apache-2.0"
release = __version__
root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "docs/generated/*.md",
    "docs/notebooks/*.md",
    "config/README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "kernels/*/README.md",
    "roofcal/report/sections/**/*.csv.md",
]
exclude_patterns = ["**/.*", "results", "reports", "tests", "docs/_build"]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "sphinx_copybutton",
]
highlight_language = "none"
smartquotes = False  # two hyphens begin an option
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_use_ivar = True
default_role = "code"  # what docstrings have in single backticks
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = "roofcal"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["entrance"]  # an index.html that leads to docs/index.html
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}


def setup(app: Sphinx) -> None:
    """Show diagrams of Mermaid as text: drawing them takes a script from another site."""
    app.add_lexer("mermaid", TextLexer)
