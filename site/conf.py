"""The documentation as a site: the pages of the repository as they are, with Sphinx.

`make site` runs it. Nothing is fetched when the site is read: the theme has its own fonts and search.
"""

import os
import pathlib
import re

root = pathlib.Path(__file__).resolve().parent.parent

project = "Trireme"
copyright = "the Trireme authors"
extensions = ["myst_parser"]
master_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "bench/README.md", "examples/README.md", "examples/*/README.md"]
myst_heading_anchors = 3
myst_links_external_new_tab = False
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = "Trireme"
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"sidebar_hide_name": False}

# The sidebar. A page that is in none of these lists is an error.
sections = {
    "Start": ["docs/quickstart", "docs/troubleshooting", "docs/comparison", "CHANGELOG"],
    "Reference": ["docs/configuration", "docs/data", "docs/runs", "docs/object-stores", "docs/generation", "docs/metrics", "docs/ui", "docs/live-view", "docs/scaling", "docs/verify", "docs/signals", "docs/traces", "docs/trackers", "docs/convert", "docs/files-of-other-programs"],
    "Memory and speed": ["docs/strategies", "docs/plan", "docs/memory", "docs/mixed-precision", "docs/optimizers", "docs/clusters", "docs/accelerators", "bench/README"],
    "Examples": ["examples/README", "examples/shakespeare-char/README", "examples/latent-bits/README"],
    "Go": ["docs/library", "docs/architecture", "docs/adding-a-model", "docs/adding-a-configuration-key", "docs/adding-an-operation", "docs/adding-an-optimizer", "docs/adding-a-transport", "docs/log", "CONTRIBUTING"],
}


def add_sidebar(app, name, source):
    """Appends the tables of contents to the first page, which a forge shows without them."""
    if name != "README":
        return
    for title, pages in sections.items():
        source[0] += "\n```{toctree}\n:hidden:\n:caption: %s\n%s\n```\n" % (title, "\n".join("/" + p for p in pages))


def link_files(app, name, source):
    """Links to files that are no page become plain text: a site has no files of code."""
    here = (root / name).parent

    def keep(match):
        text, target = match.group(1), match.group(2).split("#")[0]
        if "://" in target or target == "" or target.endswith((".md", ".svg")):
            return match.group(0)
        if not os.path.exists(here / target):
            raise ValueError("%s links to %s, which is not there" % (name, target))
        return text

    source[0] = re.sub(r"(?<!!)\[([^\]]+)\]\(([^)]+)\)", keep, source[0])


def add_index(app, failed):
    """The first page is also the site's index.html."""
    if failed is None and app.builder.name == "html":
        out = pathlib.Path(app.outdir)
        (out / "index.html").write_bytes((out / "README.html").read_bytes())


def setup(app):
    app.connect("source-read", link_files)
    app.connect("source-read", add_sidebar)
    app.connect("build-finished", add_index)
