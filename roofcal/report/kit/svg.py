"""A matplotlib figure -> a small inline SVG: the same bytes for the same figure, no dates.

In a page, ids and classes of all figures share one name space, so both get the figure's own prefix.
"""

import io
import re
from collections import Counter
from html import escape
from typing import Final

from matplotlib.figure import Figure

from roofcal.report.kit.styles import COLOURS, PAPER, look

_CLASS_FROM: Final = 3  # uses of a style: a class costs more than two repetitions of it
_TAG: Final = re.compile(r"<[^>]+>")
_LONG_NUMBER: Final = re.compile(r"(-?\d+\.\d\d)\d+")
_STYLE: Final = re.compile(r'style="([^"]+)"')
_FONT: Final = re.compile(r"font: ((?:(?:italic|oblique|bold|\d{3}) )*)([\d.]+px) [^;\"]*")
_FAMILY: Final = re.compile(r"font-family: [^;\"]*;? ?")  # matplotlib 3.11; before, part of `font`
_NO_METADATA: Final = {"Date": None, "Creator": None, "Format": None, "Type": None}


def inline_svg(figure: Figure, prefix: str, title: str) -> str:
    """The figure as an <svg> element.

    Args:
        figure: drawn under `look`.
        prefix: letters and digits, unlike the prefix of any other figure on the page.
        title: its text alternative.
    """
    buffer = io.StringIO()
    with look():
        # Place the panels, once: savefig draws a figure with a layout engine twice
        engine = figure.get_layout_engine()
        if engine is not None:
            engine.execute(figure)
            figure.set_layout_engine("none")
        figure.savefig(buffer, format="svg", metadata=_NO_METADATA)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = _TAG.sub(lambda tag: _LONG_NUMBER.sub(r"\1", tag.group()), text)
    text = _FAMILY.sub("", text)
    text = _FONT.sub(lambda font: _plain_font(font.group(1), font.group(2)), text)
    # Ids without a reference go; the others become short ones that begin with the prefix
    references = dict.fromkeys(re.findall(r"(?:href=\"#|url\(#)([^\")]+)", text))
    short = {name: f"{prefix}i{number}" for number, name in enumerate(references)}
    text = re.sub(
        r' id="([^"]+)"',
        lambda m: f' id="{short[m.group(1)]}"' if m.group(1) in short else "",
        text,
    )
    text = re.sub(r"url\(#([^)]+)\)", lambda m: f"url(#{short[m.group(1)]})", text)
    text = re.sub(r'xlink:href="#([^"]+)"', lambda m: f'href="#{short[m.group(1)]}"', text)
    text = _with_classes(text, prefix)
    for name, colour in COLOURS.items():
        text = re.sub(colour, f"var(--{name})", text, flags=re.IGNORECASE)
    return _with_head(re.sub(r">\s+<", "><", text).strip(), title)


def standalone(svg: str) -> str:
    """An inline figure as a file of its own: light colours, a name space, its size in pixels."""
    _, _, width, height = _view_box(svg).split()
    colours = "".join(f"--{name}:{colour};" for name, colour in COLOURS.items())
    name_space = f'xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
    start = svg.index(">") + 1
    head = svg[:start].replace("<svg ", f"<svg {name_space} ", 1)
    style = f"<style>svg{{{colours}background:{PAPER};font-family:sans-serif}}</style>"
    return f"{head}{style}{svg[start:]}\n"


def _view_box(svg: str) -> str:
    match = re.search(r'viewBox="([^"]+)"', svg)
    assert match is not None, "matplotlib writes a viewBox"
    return match.group(1)


def _plain_font(style: str, size: str) -> str:
    """Size and weight alone: the family is the page's."""
    weight = ";font-weight:600" if "bold" in style or "700" in style else ""
    return f"font-size:{size}{weight}"


def _with_classes(text: str, prefix: str) -> str:
    """Each style that many elements have becomes a class."""
    counts = Counter(_STYLE.findall(text))
    common = [style for style, count in counts.most_common() if count >= _CLASS_FROM]
    names = {style: f"{prefix}{number}" for number, style in enumerate(common)}
    text = _STYLE.sub(
        lambda m: f'class="{names[m.group(1)]}"' if m.group(1) in names else m.group(), text
    )
    rules = "".join(f".{name}{{{style}}}" for style, name in names.items())
    start = text.index(">") + 1
    return f"{text[:start]}<style>{rules}</style>{text[start:]}"


def _with_head(text: str, title: str) -> str:
    """The <svg> tag: its box, role and text alternative; no name spaces, HTML knows them."""
    box = _view_box(text)
    width = float(box.split()[2])
    return (
        f'<svg role="img" aria-label="{escape(title, quote=True)}" viewBox="{box}" '
        f'style="--width:{width:.0f}px">{text[text.index(">") + 1 :]}'
    )
