"""Translates texts, and formats money, dates and durations in a customer's language."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache, cached_property, lru_cache
from gettext import GNUTranslations, NullTranslations
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from manilla.kit import display
from manilla.kit.money import Money, symbol_of

if TYPE_CHECKING:  # commands translate emails without templates
    import jinja2

CATALOGUES = Path(str(resources.files("manilla.languages"))) / "catalogues"
QUALITY = "q="
HEADER_LENGTH_MAX = 1_000  # a longer Accept-Language header is ignored


class CustomerLanguage:
    """English, and what all languages have in common. A missing translation is in English."""

    code = "en"
    direction = "ltr"

    def __init__(self, texts: NullTranslations | None = None) -> None:
        self._texts = texts or NullTranslations()

    @cached_property
    def name(self) -> str:
        """The language's own name."""
        return self._texts.pgettext("the name of this language, in this language", "English")

    def gettext(self, text: str) -> str:
        return self._texts.gettext(text)

    def ngettext(self, one: str, many: str, count: int) -> str:
        return self._texts.ngettext(one, many, count)

    def money(self, amount: Money) -> str:
        return display.money(amount)

    def day(self, at: datetime) -> str:
        return f"{at:%d %B %Y}"

    def month(self, at: datetime) -> str:
        return f"{at:%B %Y}"

    def moment(self, at: datetime) -> str:
        """Formats a time in Lagos time."""
        return display.moment_text(at)

    def duration(self, seconds: int) -> str:
        return display.duration(seconds)

    def install(self, environment: "jinja2.Environment") -> None:
        """Makes the language's texts and formats available to templates."""
        environment.add_extension("jinja2.ext.i18n")
        environment.newstyle_gettext = True  # type: ignore[attr-defined]
        # Jinja's own functions do the same for each text, which takes a fifth of a page's time.
        safe: type[str] = Markup if environment.autoescape else str

        @cache
        def constant(text: str) -> str:
            return safe(self.gettext(text)) % {}

        def gettext(text: str, **values: Any) -> str:
            return safe(self.gettext(text)) % values if values else constant(text)

        def ngettext(one: str, many: str, num: int, **values: Any) -> str:
            return safe(self.ngettext(one, many, num)) % {"num": num, **values}

        environment.globals.update(language=self, _=gettext, gettext=gettext, ngettext=ngettext)
        environment.filters.update(
            money=self.money, day=self.day, month=self.month, duration=self.duration
        )


class TranslatedLanguage(CustomerLanguage):
    """A language with a catalogue. Babel formats its numbers and dates."""

    def __init__(self, code: str) -> None:
        with (CATALOGUES / f"{code}.mo").open("rb") as file:
            super().__init__(GNUTranslations(file))
        self.code = code

    @cached_property
    def _locale(self) -> Any:
        # Import Babel here, because it loads slowly and English pages do not need it.
        from babel import Locale

        found = self._texts.pgettext("the CLDR locale of this language's dates", "en_NG")
        return Locale.parse(found)

    @cached_property
    def direction(self) -> str:  # type: ignore[override]
        return str(self._locale.text_direction)

    def money(self, amount: Money) -> str:
        """Formats money with the language's separators.

        The digits and the symbol are those of the English format, so nothing is rounded.
        """
        group, point, is_after = self._money_format
        symbol, sign = symbol_of(amount.currency), "-" if amount.minor < 0 else ""
        digits = f"{abs(amount.amount):,f}".translate({ord(","): group, ord("."): point})
        if is_after:
            return f"{sign}{digits}\N{NO-BREAK SPACE}{symbol}"
        gap = "\N{NO-BREAK SPACE}" if symbol[-1].isalpha() else ""
        return f"{sign}{symbol}{gap}{digits}"

    @cached_property
    def _money_format(self) -> tuple[str, str, bool]:
        from babel.numbers import get_decimal_symbol, get_group_symbol

        pattern = self._locale.currency_formats["standard"].pattern.split(";")[0]
        is_after = pattern.index("¤") > pattern.index("0")
        # The pages' font has no narrow space, and browsers draw one that is hard to see.
        group = get_group_symbol(self._locale).replace("\N{NARROW NO-BREAK SPACE}", "\xa0")
        return group, get_decimal_symbol(self._locale), is_after

    def day(self, at: datetime) -> str:
        from babel.dates import format_date

        return str(format_date(at, "long", self._locale))

    def month(self, at: datetime) -> str:
        from babel.dates import format_skeleton

        return str(format_skeleton("yMMMM", at, locale=self._locale))

    def moment(self, at: datetime) -> str:
        shown = display.in_lagos(at)
        return f"{self.day(shown)}, {shown:%H:%M}"

    def duration(self, seconds: int) -> str:
        minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
        if days:
            text = self.ngettext("%(days)s day %(hours)s h", "%(days)s days %(hours)s h", days)
        elif hours:
            text = self.gettext("%(hours)s h %(minutes)s min")
        else:
            text = self.gettext("%(minutes)s min") if minutes else self.gettext("%(seconds)s s")
        return text % {
            "days": days,
            "hours": hours % 24,
            "minutes": minutes % 60,
            "seconds": seconds,
        }


ENGLISH = CustomerLanguage()


@cache
def languages() -> dict[str, CustomerLanguage]:
    """Returns the languages by code: English first, then each language that has a catalogue."""
    codes = sorted(file.stem for file in CATALOGUES.glob("*.mo"))
    found = [ENGLISH, *(TranslatedLanguage(code) for code in codes)]
    return {language.code: language for language in found}


def find(code: str | None) -> CustomerLanguage:
    """Returns the language with this code, or English."""
    return languages().get(code or "", ENGLISH)


@lru_cache(maxsize=1_000)
def of_browser(header: str) -> CustomerLanguage:
    """Returns the language that a browser prefers, according to its Accept-Language header."""
    if len(header) > HEADER_LENGTH_MAX:
        return ENGLISH
    for tag in _by_preference(header.lower().split(",")):
        language = languages().get(tag.split("-")[0])
        if language is not None:
            return language
    return ENGLISH


def _by_preference(ranges: Sequence[str]) -> list[str]:
    """Returns the language tags, the preferred ones first. A quality of 0 excludes a language."""
    ranked = []
    for each in ranges:
        tag, *parameters = (part.strip() for part in each.split(";"))
        given = next((part for part in parameters if part.startswith(QUALITY)), "q=1")
        try:
            quality = float(given.removeprefix(QUALITY))
        except ValueError:
            continue
        if quality > 0:
            ranked.append((quality, tag))
    return [tag for _, tag in sorted(ranked, key=lambda each: -each[0])]
