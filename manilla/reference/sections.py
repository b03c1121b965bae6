"""Parses a rendered page: headings for the table of contents, and text for the search."""

import re
from html.parser import HTMLParser

import msgspec

HEADINGS = ("h2", "h3")
# Elements whose text is not searched. The page's title (h1) is stored separately.
SILENT = {"script", "style", "button", "svg", "h1", "fieldset"}


class PageSection(msgspec.Struct):
    """A heading and the content below it. The first section of a page has no heading."""

    id: str
    level: int
    heading: str
    text: str


class _SectionParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.sections = [PageSection("", 1, "", "")]
        self._in_heading = False
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own_id = dict(attrs).get("id")
        if tag in HEADINGS and own_id:
            self.sections.append(PageSection(own_id, int(tag[1]), "", ""))
            self._in_heading = True
        self._silent += tag in SILENT

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in SILENT
        if tag in HEADINGS:
            self._in_heading = False
        else:
            self._add(" " if tag in ("td", "th", "p", "li", "pre", "dt", "dd", "tr") else "")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._add(data)

    def _add(self, text: str) -> None:
        section = self.sections[-1]
        if self._in_heading:
            section.heading += text
        else:
            section.text += text


def of_page(html: str) -> list[PageSection]:
    reader = _SectionParser()
    reader.feed(html)
    reader.close()
    return [
        PageSection(one.id, one.level, _plain(one.heading), _plain(one.text))
        for one in reader.sections
    ]


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
