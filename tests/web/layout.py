"""Finds elements that are cut off on a page.

Money, buttons, statuses, column titles, and what names a row or its merchant must be readable.
"""

from collections.abc import Sequence

from playwright.async_api import Browser, Page

from tests.web.signed_in_user import SignedInUser

PHONE, TABLET, LAPTOPS = 390, 768, (1280, 1366)
WIDTHS = (PHONE, *LAPTOPS)
LIST_WIDTHS = (PHONE, TABLET, *LAPTOPS)
# The script fills lists with the largest amounts and the longest names.
FILL = """() => {
  for (const cell of document.querySelectorAll("td.num"))
    if (/^-?[₦$]/.test(cell.textContent.trim())) cell.textContent = "-₦9,999,999,999.99";
  const long = "Adebayo-Okonkwo and Daughters International Trading Company Limited";
  for (const link of document.querySelectorAll(".rows a.row-link")) link.textContent = long;
}"""
# The script returns the elements that are cut off by their own box, their table or the window.
CUT = """() => {
  const cut = [];
  const shown = { contentVisibilityAuto: true, visibilityProperty: true };
  const names = "td.at-name:not(:has(.id)), td.at-name :not(.id, .id *, .visually-hidden)";
  const whole = "td.whole:not(:has(.id))";
  const watched =
    `td.num, .rows th, .figure, .outcomes .num, .btn, .state, .count, ${names}, ${whole}`;
  // An amount that stays in view while the list scrolls can cover the cell beside it.
  const isCovered = (each, box) => {
    const amount = each.closest("tr")?.querySelector("td.at-amount:last-child");
    if (!amount || amount.contains(each)) return false;
    const over = amount.getBoundingClientRect();
    const isBeside = over.top < box.bottom && over.bottom > box.top;
    return isBeside && over.left < box.right - 1 && over.right > box.left;
  };
  for (const each of document.querySelectorAll(watched)) {
    const box = each.getBoundingClientRect();
    if (!box.width || box.right < 0 || !each.checkVisibility(shown)) continue;
    const frame = each.closest(".table-box");
    const outer = frame ? frame.getBoundingClientRect() : { left: 0, right: innerWidth };
    const right = Math.min(outer.right, innerWidth), left = Math.max(outer.left, 0);
    const isInline = getComputedStyle(each).display === "inline";
    const isMeasurable = !isInline && !each.querySelector(".visually-hidden");
    const isCut = isMeasurable && each.scrollWidth > each.clientWidth + 1;
    const isHidden = each.matches(".state") && isCovered(each, box);
    if (!isCut && !isHidden && box.right <= right + 1 && box.left >= left - 1) continue;
    const text = each.textContent.trim().slice(0, 40);
    cut.push(`${each.tagName.toLowerCase()}.${each.className} "${text}"`);
  }
  const width = document.documentElement.scrollWidth;
  if (width > innerWidth) cut.push(`page ${width} px wide`);
  return [...new Set(cut)];
}"""


async def check_nothing_is_cut_off(
    browser: Browser,
    user: SignedInUser,
    urls: Sequence[str],
    widths: Sequence[int] = WIDTHS,
) -> None:
    """Opens the pages as this user, and fails if an element is cut off at any of the widths."""
    context = await browser.new_context()
    await user.enter(context)
    found = await cut_off(await context.new_page(), urls, widths)
    await context.close()
    assert not found, "\n".join(found)


async def cut_off(page: Page, urls: Sequence[str], widths: Sequence[int]) -> list[str]:
    found: list[str] = []
    for url in urls:
        await page.set_viewport_size({"width": widths[-1], "height": 844})
        await page.goto(url)
        await page.evaluate(FILL)
        for width in widths:
            await page.set_viewport_size({"width": width, "height": 844})
            found += [f"{url} at {width} px: {text}" for text in await page.evaluate(CUT)]
    return found
