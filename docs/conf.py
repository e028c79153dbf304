"""Settings of Sphinx for the documentation. `scripts/docs` builds it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx import addnodes

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
_PAGES = {
    "ARCHITECTURE.md": "contributing/architecture",
    "CHANGELOG.md": "changes",
    "CONTRIBUTING.md": "contributing/index",
    "SECURITY.md": "concepts/security",
}
"""Pages by the document of the repository that they include. Links in the documents name these
documents."""

project = "jupyter-slurm"
author = "The jupyter-slurm developers"
project_copyright = author
release = json.loads((ROOT / "labextension" / "package.json").read_text(encoding="utf-8"))[
    "version"
]

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["administrators-figures.md"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
default_role = "code"
"""Docstrings write code in single backticks."""
suppress_warnings = ["myst.header"]
"""Included parts of documents begin at their second level."""
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
highlight_language = "none"
pygments_style = "default"

html_theme = "pydata_sphinx_theme"
html_title = "jupyter-slurm"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_logo = "static/logo.svg"
html_favicon = "static/logo.svg"
smartquotes = False
"""Options begin with two hyphens."""
html_sidebars = {"administrators": [], "where-it-works": [], "changes": []}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "logo": {"text": "jupyter-slurm"},
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def _link_pages(_app: Sphinx, document: nodes.document) -> None:
    """Link the name of a document of the repository to the page that includes it."""
    for link in document.findall(addnodes.pending_xref):
        page = _PAGES.get(link["reftarget"])
        if page is not None:
            link["refdomain"], link["reftype"], link["reftarget"] = "std", "doc", f"/{page}"
            link["refexplicit"] = True


def setup(app: Sphinx) -> None:
    """Connect the hook for links."""
    app.connect("doctree-read", _link_pages)
