"""Checks a page's HTML for accessibility problems, without a browser.

A browser with axe also checks colors, sizes and the results of scripts, but needs a thousand times
the CPU time (see `accessibility.py`).
"""

from collections import Counter
from html.parser import HTMLParser

FIELDS = {"input", "select", "textarea"}
WITHOUT_LABEL = {"hidden", "submit", "button"}
NAMED = {"a", "button", "summary"}
VOID = {"br", "col", "hr", "img", "input", "link", "meta", "source", "wbr", "path", "use", "circle"}
REFERENCES = ("for", "aria-labelledby", "aria-describedby", "aria-controls", "list", "form")


class _Element:
    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.text = ""

    @property
    def needs_label(self) -> bool:
        is_shown = "hidden" not in self.attributes
        return is_shown and self.tag in FIELDS and self.attributes.get("type") not in WITHOUT_LABEL

    @property
    def name(self) -> str:
        words = (self.attributes.get(name, "") for name in ("aria-label", "aria-labelledby"))
        return "".join((*words, self.attributes.get("title", ""), self.text)).strip()


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.elements: list[_Element] = []
        self.open: list[_Element] = []
        self.inside_label: set[_Element] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = _Element(tag, {name: value or "" for name, value in attrs})
        self.elements.append(element)
        if tag in FIELDS and any(each.tag == "label" for each in self.open):
            self.inside_label.add(element)
        if tag == "img":
            self.handle_data(element.attributes.get("alt", ""))
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        while any(each.tag == tag for each in self.open) and self.open.pop().tag != tag:
            pass

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data


def problems(html: str) -> list[str]:
    page = _Page()
    page.feed(html)
    ids = Counter(e.attributes["id"] for e in page.elements if "id" in e.attributes)
    labels = {e.attributes.get("for") for e in page.elements if e.tag == "label" and e.name}
    found = [f"the id {name} is used {number} times" for name, number in ids.items() if number > 1]
    for element in page.elements:
        tag, attributes = element.tag, element.attributes
        for name in REFERENCES:
            targets = attributes.get(name, "").split()
            found += [f"{tag}: {name}={target}" for target in targets if target not in ids]
        if element.needs_label:
            has_label = element in page.inside_label or attributes.get("id") in labels
            found += [] if has_label or element.name else [f"{tag} without a label: {attributes}"]
        if tag in NAMED and not element.name:
            found.append(f"{tag} without a name: {attributes}")
        if tag == "img" and "alt" not in attributes:
            found.append(f"img without alt: {attributes}")
    return found + _landmarks(page.elements) + _structure(page.elements)


def _landmarks(elements: list[_Element]) -> list[str]:
    """Checks that landmarks with the same role have different names."""
    roles = {"nav": "navigation", "aside": "complementary"}
    names = Counter(
        (role, element.attributes.get("aria-label", element.attributes.get("aria-labelledby", "")))
        for element in elements
        if (role := element.attributes.get("role", roles.get(element.tag, "")))
        in ("navigation", "complementary", "region", "search")
        or (element.tag == "section" and "aria-label" in element.attributes)
    )
    return [f"{number} landmarks {name}" for name, number in names.items() if number > 1]


def _structure(elements: list[_Element]) -> list[str]:
    count = Counter(element.tag for element in elements)
    found = [f"{count[tag]} {tag} elements" for tag in ("h1", "main", "title") if count[tag] != 1]
    [root] = [element for element in elements if element.tag == "html"]
    return found if root.attributes.get("lang") else [*found, "no language"]
