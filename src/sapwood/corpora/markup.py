"""Trees and facts for other documents: tables of HTML for notebooks, LaTeX for papers."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape

from sapwood.corpora.draw import NO_LABEL, printable
from sapwood.corpora.tree import Tree

LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{char: "\\" + char for char in "&%$#_{}"},
}  # fmt: skip  # fmt: skip


def table_html(caption: str, rows: Mapping[str, object]) -> str:
    """Facts as a small table, in the colours of whatever page it stands on.

    Examples
    --------
    >>> table_html("A <b>", {"words": 3})
    '<table><caption>A &lt;b&gt;</caption><tr><th>words</th><td>3</td></tr></table>'
    """
    lines = (
        f"<tr><th>{escape(str(name))}</th><td>{escape(printable(str(value)))}</td></tr>"
        for name, value in rows.items()
    )
    return f"<table><caption>{escape(printable(caption))}</caption>{''.join(lines)}</table>"


def latex_text(text: str) -> str:
    r"""A text as LaTeX prints it.

    Examples
    --------
    >>> print(latex_text("PRP$ & 5 %"))
    PRP\$ \& 5 \%
    """
    return "".join(LATEX.get(char, char) for char in printable(text))


def draw_latex(tree: Tree) -> str:
    r"""The tree as an environment of the LaTeX package forest, words on one line.

    Examples
    --------
    >>> print(draw_latex(Tree.parse("(S (NP (NNS dogs)) (VP (VBP bark)))")))
    \begin{forest}
    where n children=0{tier=word}{}
    [{S} [{NP} [{NNS} [{dogs}]]] [{VP} [{VBP} [{bark}]]]]
    \end{forest}
    """
    parts: list[str] = []
    stack: list[Tree | str | None] = [tree]
    while stack:
        item = stack.pop()
        if item is None:
            parts.append("]")
            continue
        label, kids = (item, ()) if isinstance(item, str) else (item.label, item.children)
        parts.append(f" [{{{latex_text(label or NO_LABEL)}}}")
        stack.append(None)
        stack.extend(reversed(kids))
    whole = "".join(parts)[1:]
    return f"\\begin{{forest}}\nwhere n children=0{{tier=word}}{{}}\n{whole}\n\\end{{forest}}"
