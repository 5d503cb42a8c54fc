"""A document as HTML that needs no network, as LaTeX, and as Markdown for the site.

Text is Markdown: headings, lists, display and inline mathematics, code, strong and emphasised
words, links; ASCII throughout.
"""

from __future__ import annotations

import base64
import html
import io
import re
from dataclasses import dataclass
from typing import Any

from derivations.document import Document, Output, Table


@dataclass(frozen=True)
class Block:
    """A piece of text: ``kind`` is heading, math, list, enumeration, code or paragraph."""

    kind: str
    lines: tuple[str, ...]
    level: int = 0


def blocks(text: str) -> list[Block]:
    """The blocks of a Markdown text.

    >>> [b.kind for b in blocks("# T\\n\\nSome text.\\n\\n$$x$$\\n\\n- one\\n- two")]
    ['heading', 'paragraph', 'math', 'list']
    """
    found: list[Block] = []
    for piece in re.split(r"\n\s*\n", text.strip("\n")):
        piece = piece.strip("\n")
        if not piece.strip():
            continue
        if match := re.match(r"(#+) (.*)", piece):
            found.append(Block("heading", (match[2].strip(),), len(match[1])))
            rest = piece[match.end() :].strip()
            found += blocks(rest) if rest else []
        elif piece.lstrip().startswith("$$"):
            found.append(Block("math", (piece.strip().strip("$").strip(),)))
        elif piece.startswith("    "):
            found.append(Block("code", tuple(line[4:] for line in piece.splitlines())))
        elif match := re.match(r"(- |\d+\. )", piece):
            items: list[str] = []
            for line in piece.splitlines():
                if start := re.match(r"(- |\d+\. )", line):
                    items.append(line[start.end() :])
                else:
                    items[-1] += " " + line.strip()
            kind = "list" if match[1] == "- " else "enumeration"
            found.append(Block(kind, tuple(items)))
        else:
            found.append(Block("paragraph", (" ".join(piece.split("\n")),)))
    return found


INLINE = re.compile(
    r"(?P<code>`[^`]+`)|(?P<math>\$[^$]+\$)|(?P<strong>\*\*[^*]+\*\*)|(?P<emphasis>\*[^*\s][^*]*\*)"
    r"|(?P<link>\[[^\]]+\]\([^)]+\))"
)


def _inline(text: str, plain: Any, spans: dict[str, Any]) -> str:
    parts, place = [], 0
    for match in INLINE.finditer(text):
        parts.append(plain(text[place : match.start()]))
        kind = match.lastgroup or ""
        parts.append(spans[kind](match[kind]))
        place = match.end()
    return "".join([*parts, plain(text[place:])])


# -- HTML

STYLE = """
body { max-width: 50rem; margin: 2rem auto; padding: 0 1rem; line-height: 1.5;
       font-family: Georgia, serif; color: #222; }
h1, h2, h3 { font-family: sans-serif; line-height: 1.2; }
pre { background: #f6f6f4; padding: .6rem .8rem; overflow-x: auto; font-size: .85rem; }
pre.output { background: none; border-left: 3px solid #bbb; }
code { font-size: .9em; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .95rem; }
td, th { padding: .15rem .8rem; text-align: right; border-bottom: 1px solid #ddd; }
math[display="block"] { margin: 1rem 0; overflow-x: auto; }
img { max-width: 100%; }
"""


def mathml(source: str, display: bool = False) -> str:
    """A formula as MathML, which browsers show without help."""
    from latex2mathml.converter import convert

    # The converter knows align*, not aligned.
    source = source.replace("{aligned}", "{align*}")
    return str(convert(source, display="block" if display else "inline"))


def _html_inline(text: str) -> str:
    def link(span: str) -> str:
        label, target = span[1:-1].split("](")
        return f'<a href="{html.escape(target)}">{_html_inline(label)}</a>'

    return _inline(
        text,
        lambda piece: html.escape(piece, quote=False),
        {
            "code": lambda s: f"<code>{html.escape(s[1:-1])}</code>",
            "math": lambda s: mathml(s[1:-1]),
            "strong": lambda s: f"<strong>{_html_inline(s[2:-2])}</strong>",
            "emphasis": lambda s: f"<em>{_html_inline(s[1:-1])}</em>",
            "link": link,
        },
    )


def _html_block(block: Block) -> str:
    match block.kind:
        case "heading":
            return f"<h{block.level}>{_html_inline(block.lines[0])}</h{block.level}>"
        case "math":
            return mathml(block.lines[0], display=True)
        case "code":
            return f"<pre>{html.escape(chr(10).join(block.lines))}</pre>"
        case "list" | "enumeration":
            tag = "ul" if block.kind == "list" else "ol"
            items = "".join(f"<li>{_html_inline(item)}</li>" for item in block.lines)
            return f"<{tag}>{items}</{tag}>"
    return f"<p>{_html_inline(block.lines[0])}</p>"


def _html_output(output: Output) -> str:
    match output.kind:
        case "math":
            return mathml(output.content, display=True)
        case "table":
            return _html_table(output.content)
        case "picture":
            data = base64.b64encode(picture(output.content, "png")).decode()
            return f'<p><img alt="picture" src="data:image/png;base64,{data}"/></p>'
    return f'<pre class="output">{html.escape(output.content)}</pre>'


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{_html_inline(column)}</th>" for column in table.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_html_inline(cell)}</td>" for cell in row) + "</tr>"
        for row in table.cells
    )
    return f"<table><tr>{head}</tr>{rows}</table>"


def to_html(document: Document) -> str:
    """One self-contained page: no script, no font and no picture from elsewhere."""
    parts = []
    for cell in document.cells:
        if cell.kind == "markdown":
            parts += map(_html_block, blocks(cell.source))
        else:
            parts.append(f"<pre>{html.escape(cell.source)}</pre>")
            parts += map(_html_output, cell.outputs)
    return page(document.title, "\n".join(parts))


def page(title: str, body: str) -> str:
    """A page around a body."""
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


# -- LaTeX

PREAMBLE = r"""\documentclass[11pt]{article}
\usepackage[utf8]{inputenc}
\usepackage[margin=2.4cm]{geometry}
\usepackage{amsmath,amssymb,graphicx}
\usepackage[colorlinks]{hyperref}
\allowdisplaybreaks
\setlength{\parindent}{0pt}\setlength{\parskip}{6pt}
"""

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{c: "\\" + c for c in "&%$#_{}"},
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def _escape(text: str) -> str:
    return "".join(SPECIAL.get(c, c) for c in text)


def _latex_inline(text: str) -> str:
    def link(span: str) -> str:
        label, target = span[1:-1].split("](")
        return rf"\href{{{target}}}{{{_latex_inline(label)}}}"

    return _inline(
        text,
        _escape,
        {
            "code": lambda s: rf"\texttt{{{_escape(s[1:-1])}}}",
            "math": lambda s: s,
            "strong": lambda s: rf"\textbf{{{_latex_inline(s[2:-2])}}}",
            "emphasis": lambda s: rf"\emph{{{_latex_inline(s[1:-1])}}}",
            "link": link,
        },
    )


def _verbatim(text: str, size: str = "footnotesize") -> str:
    # A line is as long as the page is wide.
    lines = [
        piece
        for line in text.splitlines()
        for piece in (re.findall(r".{1,104}", line) if line else [""])
    ]
    content = "\n".join(lines)
    return f"{{\\{size}\n\\begin{{verbatim}}\n{content}\n\\end{{verbatim}}\n}}"


def _latex_math(source: str) -> str:
    if match := re.fullmatch(r"\\begin\{aligned\}(.*)\\end\{aligned\}", source, re.DOTALL):
        return rf"\begin{{align*}}{match[1]}\end{{align*}}"
    return f"\\[\n{source}\n\\]"


def _latex_block(block: Block) -> str:
    match block.kind:
        case "heading":
            if block.level == 1:
                return rf"\title{{{_latex_inline(block.lines[0])}}}\date{{}}\maketitle"
            command = "section" if block.level == 2 else "subsection"
            return rf"\{command}*{{{_latex_inline(block.lines[0])}}}"
        case "math":
            return _latex_math(block.lines[0])
        case "code":
            return _verbatim("\n".join(block.lines))
        case "list" | "enumeration":
            kind = "itemize" if block.kind == "list" else "enumerate"
            items = "\n".join(rf"\item {_latex_inline(item)}" for item in block.lines)
            return f"\\begin{{{kind}}}\n{items}\n\\end{{{kind}}}"
    return _latex_inline(block.lines[0])


def _latex_table(table: Table) -> str:
    def row(cells: tuple[str, ...]) -> str:
        return " & ".join(map(_latex_inline, cells)) + r" \\"

    body = "\n".join(map(row, table.cells))
    return (
        f"\\begin{{center}}\\begin{{tabular}}{{{'r' * len(table.columns)}}}\n"
        f"{row(table.columns)} \\hline\n{body}\n\\end{{tabular}}\\end{{center}}"
    )


def to_latex(document: Document) -> tuple[str, dict[str, bytes]]:
    """The source and its pictures by file name; amsmath and graphicx suffice."""
    parts, pictures = [], {}
    for cell in document.cells:
        if cell.kind == "markdown":
            parts += map(_latex_block, blocks(cell.source))
            continue
        parts.append(_verbatim(cell.source))
        for output in cell.outputs:
            if output.kind == "math":
                parts.append(_latex_math(output.content))
            elif output.kind == "table":
                parts.append(_latex_table(output.content))
            elif output.kind == "picture":
                name = f"{document.name}-{len(pictures) + 1}.pdf"
                pictures[name] = picture(output.content, "pdf")
                parts.append(
                    rf"\begin{{center}}\includegraphics[width=.8\textwidth]{{{name}}}\end{{center}}"
                )
            else:
                parts.append(_verbatim(output.content))
    body = "\n\n".join(parts)
    return f"{PREAMBLE}\\begin{{document}}\n{body}\n\\end{{document}}\n", pictures


# -- Markdown


def to_markdown(document: Document) -> tuple[str, dict[str, bytes]]:
    """The page of the site and its pictures by file name."""
    parts, pictures = [], {}
    for cell in document.cells:
        if cell.kind == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for output in cell.outputs:
            if output.kind == "math":
                parts.append(f"$$\n{output.content}\n$$")
            elif output.kind == "table":
                parts.append(_markdown_table(output.content))
            elif output.kind == "picture":
                name = f"{document.name}-{len(pictures) + 1}.png"
                pictures[name] = picture(output.content, "png")
                parts.append(f"![{document.title}]({name})")
            else:
                parts.append(f"```text\n{output.content}\n```")
    return "\n\n".join(parts) + "\n", pictures


def _markdown_table(table: Table) -> str:
    def row(cells: tuple[str, ...]) -> str:
        return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"

    rule = "|" + " --: |" * len(table.columns)
    return "\n".join([row(table.columns), rule, *map(row, table.cells)])


def picture(figure: Any, kind: str) -> bytes:
    """A matplotlib Figure as a file's content; the same figure gives the same bytes."""
    stream = io.BytesIO()
    metadata = {"Software": None} if kind == "png" else {"CreationDate": None, "Producer": None}
    figure.savefig(stream, format=kind, dpi=150, metadata=metadata)
    return stream.getvalue()
