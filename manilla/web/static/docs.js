// Copy buttons, the chosen language, search, and the current heading.
"use strict";
(() => {
  const LANGUAGE = "manilla-docs-language";
  const FOUND_MAX = 12;

  function remember(language) { try { localStorage.setItem(LANGUAGE, language); } catch { /* storage not allowed: not remembered */ } }
  function remembered() { try { return localStorage.getItem(LANGUAGE); } catch { return null; } }

  function chooseLanguage(language) {
    for (const input of document.querySelectorAll("[data-tabs] input")) {
      if (input.value === language) input.checked = true;
    }
  }

  async function copyCode(button) {
    await navigator.clipboard.writeText(button.closest("figure").querySelector("code").textContent);
    const words = button.querySelector("span") || button;
    words.textContent = "Copied";
    setTimeout(() => { words.textContent = "Copy"; }, 1500);
  }

  // Same rules as the server's search: all words must match, and matches in titles rank higher.
  function find(index, query) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean).slice(0, 8);
    const weights = { page: 8, heading: 6, text: 1 };
    const score = (entry) => words.reduce((total, word) => {
      const one = Object.entries(weights).reduce((sum, [part, weight]) => sum + (entry[part].toLowerCase().includes(word) ? weight : 0), 0);
      return total === null || !one ? null : total + one;
    }, words.length ? 0 : null);
    return index.map((entry) => [score(entry), entry]).filter(([points]) => points !== null)
      .sort(([first], [second]) => second - first).slice(0, FOUND_MAX).map(([, entry]) => ({ entry, words }));
  }

  function line({ entry, words }) {
    const link = document.createElement("a"), title = document.createElement("strong"), text = document.createElement("span");
    link.href = entry.address;
    title.textContent = entry.heading ? `${entry.page} › ${entry.heading}` : entry.page;
    const places = words.map((word) => entry.text.toLowerCase().indexOf(word)).filter((place) => place >= 0);
    const begin = Math.max(Math.min(...places, entry.text.length) - 30, 0);
    text.textContent = places.length && begin ? `… ${entry.text.slice(begin, begin + 120)}` : entry.text.slice(0, 120);
    link.append(title, text);
    return link;
  }

  function searchable(form) {
    const input = form.querySelector("input"), box = form.querySelector("[data-found]");
    let index = null;
    const load = async () => { index ??= fetch(form.dataset.search).then((answer) => answer.json()); return index; };
    const show = async () => {
      const query = input.value.trim();
      if (!query) { box.hidden = true; return; }
      const found = find(await load(), query);
      if (input.value.trim() !== query) return;
      const nothing = document.createElement("p");
      nothing.textContent = "No results. Try fewer words, an error code or a field name.";
      box.replaceChildren(...(found.length ? found.map(line) : [nothing]));
      box.hidden = false;
    };
    input.addEventListener("focus", load);
    input.addEventListener("input", show);
    form.addEventListener("keydown", (event) => {
      const links = [...box.querySelectorAll("a")], place = links.indexOf(document.activeElement);
      if (event.key === "Escape") { box.hidden = true; input.blur(); }
      if (event.key === "ArrowDown" && links.length) { event.preventDefault(); links[Math.min(place + 1, links.length - 1)].focus(); }
      if (event.key === "ArrowUp" && place >= 0) { event.preventDefault(); (place ? links[place - 1] : input).focus(); }
    });
    document.addEventListener("click", (event) => { if (!form.contains(event.target)) box.hidden = true; });
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && !event.target.closest("input:not([type=radio]), textarea, select")) { event.preventDefault(); input.focus(); input.select(); }
    });
  }

  // On wide screens the table of contents is always open.
  function openMenu(menu) {
    const wide = matchMedia("(min-width: 62rem)");
    const show = () => { menu.open = wide.matches; };
    wide.addEventListener("change", show);
    show();
    const here = menu.querySelector("[aria-current]"), side = menu.parentElement;
    if (wide.matches && here && here.offsetTop > side.clientHeight - 80) side.scrollTop = here.offsetTop - side.clientHeight / 2;
  }

  function followHeadings() {
    const links = new Map([...document.querySelectorAll(".docs-margin a")].map((link) => [link.hash.slice(1), link]));
    if (!links.size) return;
    const headings = [...document.querySelectorAll("h2[id], h3[id]")].filter((heading) => links.has(heading.id));
    const mark = () => {
      const past = headings.filter((heading) => heading.getBoundingClientRect().top < 120);
      const current = (past.at(-1) || headings[0]).id;
      for (const [id, link] of links) { if (id === current) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current"); }
    };
    document.addEventListener("scroll", mark, { passive: true });
    mark();
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy-code]");
    if (button) copyCode(button);
  });
  document.addEventListener("change", (event) => {
    if (event.target.closest("[data-tabs]")) { remember(event.target.value); chooseLanguage(event.target.value); }
  });
  if (navigator.clipboard) for (const button of document.querySelectorAll("[data-copy-code]")) button.hidden = false;
  chooseLanguage(remembered());
  for (const form of document.querySelectorAll("[data-search]")) searchable(form);
  for (const menu of document.querySelectorAll("[data-menu]")) openMenu(menu);
  followHeadings();
})();
