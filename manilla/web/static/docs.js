// Copy buttons, the language choice, search, and highlighting of the current heading.
"use strict";
(() => {
  const LANGUAGE = "manilla-docs-language";
  const TYPING_MILLISECONDS = 120;

  function remember(language) { try { localStorage.setItem(LANGUAGE, language); } catch { /* storage is not allowed, so the choice is not saved */ } }
  function remembered() { try { return localStorage.getItem(LANGUAGE); } catch { return null; } }

  function chooseLanguage(language) {
    for (const input of document.querySelectorAll("[data-tabs] input")) {
      if (input.value === language) input.checked = true;
    }
  }

  async function copyCode(button) {
    await navigator.clipboard.writeText(button.closest("figure").querySelector("code").textContent);
    const words = button.querySelector("span") || button, status = document.querySelector("[data-copied]");
    words.textContent = status.textContent = "Copied";
    setTimeout(() => { words.textContent = "Copy"; status.textContent = ""; }, 1500);
  }

  function line(result) {
    const link = document.createElement("a"), title = document.createElement("strong"), text = document.createElement("span");
    link.href = result.address;
    title.textContent = result.title;
    text.textContent = result.excerpt;
    link.append(title, text);
    return link;
  }

  function searchable(form) {
    const input = form.querySelector("input"), box = form.querySelector("[data-found]"), count = form.querySelector("[data-found-count]");
    let typing = 0;
    const close = () => { box.hidden = true; count.textContent = ""; };
    const show = async () => {
      const query = input.value.trim();
      if (!query) { close(); return; }
      const answer = await fetch(`${form.dataset.search}?q=${encodeURIComponent(query)}`);
      if (!answer.ok || input.value.trim() !== query) return;
      const found = await answer.json(), nothing = document.createElement("p");
      nothing.textContent = "No results. Try fewer words, an error code or a field name.";
      box.replaceChildren(...(found.length ? found.map(line) : [nothing]));
      box.hidden = false;
      count.textContent = found.length ? `${found.length} result${found.length === 1 ? "" : "s"}. Use the down arrow key.` : "No results";
    };
    input.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(show, TYPING_MILLISECONDS); });
    form.addEventListener("keydown", (event) => {
      const links = [...box.querySelectorAll("a")], place = links.indexOf(document.activeElement);
      if (event.key === "Escape") { close(); input.focus(); }
      if (event.key === "ArrowDown" && links.length) { event.preventDefault(); links[Math.min(place + 1, links.length - 1)].focus(); }
      if (event.key === "ArrowUp" && place >= 0) { event.preventDefault(); (place ? links[place - 1] : input).focus(); }
    });
    document.addEventListener("click", (event) => { if (!form.contains(event.target)) close(); });
    form.addEventListener("focusout", (event) => { if (event.relatedTarget && !form.contains(event.relatedTarget)) close(); });
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
    const links = new Map([...document.querySelectorAll(".docs-here a")].map((link) => [link.hash.slice(1), link]));
    if (!links.size) return;
    const headings = [...document.querySelectorAll("h2[id]")].filter((heading) => links.has(heading.id));
    const mark = () => {
      const past = headings.filter((heading) => heading.getBoundingClientRect().top < 120);
      const current = (past.at(-1) || headings[0]).id;
      for (const [id, link] of links) { if (id === current) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current"); }
    };
    document.addEventListener("scroll", mark, { passive: true });
    mark();
  }

  // Inserts the merchant key of a reader who is signed in to the dashboard into the examples.
  async function fillInKeys(note) {
    const answer = await fetch(note.dataset.ownKeys, { redirect: "manual" });
    if (!answer.ok) return;
    const own = await answer.json();
    for (const code of note.closest(".part").querySelectorAll("code")) {
      for (const text of [...code.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE)) {
        text.data = text.data.replace("MERCHANT_KEY=test_...", `MERCHANT_KEY=${own.merchant_key}`);
      }
    }
    note.hidden = false;
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
  for (const note of document.querySelectorAll("[data-own-keys]")) fillInKeys(note);
  followHeadings();
})();
