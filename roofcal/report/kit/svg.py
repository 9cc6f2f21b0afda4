"""A matplotlib figure -> a small inline SVG: the same bytes for the same figure, no dates.

In a page, ids and classes of all figures share one name space, so both get the figure's own prefix.
"""

import io
import re
from collections import Counter
from html import escape
from typing import Final

from matplotlib.figure import Figure

from roofcal.report.kit.styles import PAPER, VARIABLES, look

_KEEP_STYLES_BELOW: Final = 3  # a class costs more than two repetitions of a style
_TAG: Final = re.compile(r"<[^>]+>")
_LONG_NUMBER: Final = re.compile(r"(-?\d+\.\d\d)\d+")
_FONT: Final = re.compile(r"font: ((?:(?:italic|oblique|bold|\d{3}) )*)([\d.]+px) [^;\"]*")
_FAMILY: Final = re.compile(r"font-family: [^;\"]*;? ?")  # matplotlib 3.11; before, part of `font`


def inline_svg(figure: Figure, prefix: str, title: str) -> str:
    """The figure as an <svg> element with `title` as its text alternative.

    prefix: letters and digits, unlike that of any other figure on the page.
    """
    buffer = io.StringIO()
    with look():
        figure.savefig(
            buffer,
            format="svg",
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = _TAG.sub(lambda tag: _LONG_NUMBER.sub(r"\1", tag.group()), text)
    text = _FAMILY.sub("", text)
    text = _FONT.sub(lambda font: _plain_font(font.group(1), font.group(2)), text)
    text = _with_variables(_short_styles(_own_ids(text, prefix), prefix))
    text = re.sub(r">\s+<", "><", text).strip()
    return _head(text, title)


def standalone(svg: str) -> str:
    """An inline figure as a file of its own: light colours, a name space, its size in pixels."""
    box = re.search(r'viewBox="\S+ \S+ (\S+) (\S+)"', svg)
    assert box is not None, "inline_svg leaves the viewBox"
    colours = "".join(f"--{name}:{colour};" for colour, name in VARIABLES.items())
    start = svg.index(">") + 1
    head = svg[:start].replace(
        "<svg ",
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{box.group(1)}" height="{box.group(2)}" ',
        1,
    )
    style = f"<style>svg{{{colours}background:{PAPER};font-family:sans-serif}}</style>"
    return f"{head}{style}{svg[start:]}\n"


def _plain_font(style: str, size: str) -> str:
    """Size and weight alone: the family is the page's."""
    weight = ";font-weight:600" if "bold" in style or "700" in style else ""
    return f"font-size:{size}{weight}"


def _own_ids(text: str, prefix: str) -> str:
    """Drop ids that nothing refers to; the others become short ones that begin with the prefix."""
    used = dict.fromkeys(re.findall(r"(?:href=\"#|url\(#)([^\")]+)", text))
    short = {name: f"{prefix}i{number}" for number, name in enumerate(used)}
    text = re.sub(
        r' id="([^"]+)"',
        lambda m: f' id="{short[m.group(1)]}"' if m.group(1) in short else "",
        text,
    )
    text = re.sub(r"url\(#([^)]+)\)", lambda m: f"url(#{short[m.group(1)]})", text)
    return re.sub(r'xlink:href="#([^"]+)"', lambda m: f'href="#{short[m.group(1)]}"', text)


def _short_styles(text: str, prefix: str) -> str:
    """Replace each style that stands in many elements by a class."""
    counts = Counter(re.findall(r'style="([^"]+)"', text))
    common = [style for style, count in counts.most_common() if count >= _KEEP_STYLES_BELOW]
    names = {style: f"{prefix}{number}" for number, style in enumerate(common)}
    text = re.sub(
        r'style="([^"]+)"',
        lambda m: f'class="{names[m.group(1)]}"' if m.group(1) in names else m.group(),
        text,
    )
    rules = "".join(f".{name}{{{style}}}" for style, name in names.items())
    start = text.index(">") + 1
    return f"{text[:start]}<style>{rules}</style>{text[start:]}"


def _with_variables(text: str) -> str:
    for colour, name in VARIABLES.items():
        text = re.sub(colour, f"var(--{name})", text, flags=re.IGNORECASE)
    return text


def _head(text: str, title: str) -> str:
    """The <svg> tag: its box, role and alternative text; no name spaces, HTML knows them."""
    box = re.search(r'viewBox="([^"]+)"', text)
    assert box is not None, "matplotlib writes a viewBox"
    width = float(box.group(1).split()[2])
    body = text[text.index(">") + 1 :]
    label = escape(title, quote=True)
    return (
        f'<svg role="img" aria-label="{label}" viewBox="{box.group(1)}" '
        f'style="--width:{width:.0f}px">{body}'
    )
