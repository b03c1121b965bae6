// Copy buttons, menus and charts. Every page works without this script.
"use strict";
(() => {
  const ZONE = "Africa/Lagos"; // time zone of all times on the pages

  async function copy(button) {
    const label = button.querySelector(".visually-hidden");
    const before = label && label.textContent;
    // Browsers allow clipboard access only over https. Otherwise select the text for copying.
    if (!navigator.clipboard) return getSelection().selectAllChildren(button.previousElementSibling || button);
    await navigator.clipboard.writeText(button.dataset.copy);
    button.classList.add("copied");
    if (label) { label.setAttribute("role", "status"); label.textContent = "Copied"; }
    setTimeout(() => {
      button.classList.remove("copied");
      if (label) { label.textContent = before; label.removeAttribute("role"); }
    }, 1500);
  }

  function closeMenus(except) {
    for (const open of document.querySelectorAll("details.drop[open]")) {
      if (!open.contains(except)) open.open = false;
    }
  }

  // On wide screens the menu is always open.
  function openMenu() {
    const wide = matchMedia("(min-width: 62rem)");
    const menu = document.querySelector("[data-menu]");
    if (!menu) return;
    const show = () => { menu.open = wide.matches; };
    wide.addEventListener("change", show);
    show();
  }

  // <figure data-chart='{"days": [unix seconds], "series": [{"label", "values"}], "money": "₦"}'>
  // With "hours": true the points are hours. "unit" follows numbers. "high" is the end of the axis.
  function draw(figure) {
    const { days, series, money, hours, unit, high: top } = JSON.parse(figure.dataset.chart);
    const style = getComputedStyle(figure);
    const colours = ["--chart-1", "--chart-2", "--chart-3"].map((name) => style.getPropertyValue(name));
    const ink = style.getPropertyValue("--quiet"), line = style.getPropertyValue("--line");
    const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
    const exact = new Intl.NumberFormat("en", { minimumFractionDigits: money ? 2 : 0, maximumFractionDigits: 2 });
    const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: ZONE });
    const number = (value) => (value == null ? "—" : (money || "") + exact.format(value) + (unit || ""));
    const axis = { stroke: ink, font: `12px ${style.fontFamily}`, grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
    const options = {
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), ZONE),
      width: figure.clientWidth, height: 220, cursor: { y: false }, legend: { live: true },
      // Without a cursor, the legend shows the latest day.
      hooks: { setCursor: [(plot) => { if (plot.cursor.idx == null) plot.setLegend({ idx: days.length - 1 }); }] },
      scales: { x: { time: true }, y: { range: (_plot, _low, high) => [0, top || Math.max(high * 1.1, money ? 1000 : 1)] } },
      axes: [{ ...axis, grid: { show: false }, ...(hours ? {} : { space: 64, values: (_plot, marks) => marks.map((mark) => day.format(new Date(mark * 1000))) }) }, { ...axis, size: 64, values: (_plot, marks) => marks.map((mark) => (money || "") + compact.format(mark) + (unit || "")) }],
      series: [{ label: hours ? "Time" : "Day", value: (_plot, at) => (at == null ? "—" : new Date(at * 1000).toLocaleString(undefined, hours ? { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", timeZone: ZONE } : { day: "numeric", month: "short", timeZone: ZONE })) },
        ...series.map((one, place) => ({ label: one.label, stroke: colours[place], width: 2, fill: place ? undefined : colours[place] + "22", points: { show: hours || days.length < 2 }, value: (_plot, value) => number(value) }))],
    };
    const plot = new uPlot(options, [days, ...series.map((one) => one.values)], figure);
    document.fonts.ready.then(() => plot.redraw());
    plot.setLegend({ idx: days.length - 1 });
    new ResizeObserver(() => plot.setSize({ width: figure.clientWidth, height: 220 })).observe(figure);
  }

  // Makes tables that are wider than the screen scrollable by keyboard.
  function reachTables() {
    for (const box of document.querySelectorAll(".table-box")) {
      if (box.scrollWidth <= box.clientWidth || box.hasAttribute("tabindex")) continue;
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", "Table");
    }
  }

  // The search dialog. Without this script its button is a link to the search page.
  const finder = document.getElementById("search");

  function openSearch() {
    if (!finder.open) finder.showModal();
    finder.querySelector("input").select();
  }

  // Enter opens the first result if the results belong to the text; otherwise the form is submitted.
  function openFirst(event) {
    const results = finder.querySelector("[data-results]");
    const first = results && results.dataset.results === event.target.value.trim() && results.querySelector("a");
    if (first) { event.preventDefault(); first.click(); }
  }

  function moveFocus(event) {
    const places = [finder.querySelector("input"), ...finder.querySelectorAll("[data-results] a")];
    const next = places.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
    event.preventDefault();
    if (places[next]) places[next].focus();
  }

  function searchKeys(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") moveFocus(event);
    if (event.key === "Enter" && event.target.matches("input")) openFirst(event);
  }

  // New results replace the one that has the focus. The same result gets it again, or the field does.
  function keepFocus() {
    let focused = null;
    finder.addEventListener("htmx:beforeSwap", () => { focused = document.activeElement.href; });
    finder.addEventListener("htmx:afterSwap", () => {
      if (!focused) return;
      const same = [...finder.querySelectorAll("[data-results] a")].find((link) => link.href === focused);
      (same || finder.querySelector("input")).focus();
    });
  }

  function isSearchKey(event) {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") return true;
    return event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.closest("input, textarea, select, [contenteditable]");
  }

  function start() {
    reachTables();
    openMenu();
    const wrong = document.querySelector("[aria-invalid='true']");
    if (wrong) wrong.focus();
    for (const figure of document.querySelectorAll("[data-chart]")) draw(figure);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
    if (finder && event.target.closest("[data-search]")) { event.preventDefault(); openSearch(); }
    if (event.target === finder) finder.close(); // a click beside the dialog
    closeMenus(event.target);
  });
  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !confirm(question)) event.preventDefault();
  });
  // Checking an option also selects the radio button that it belongs to.
  document.addEventListener("change", (event) => {
    const choice = event.target.checked && document.getElementById(event.target.dataset.picks);
    if (choice) choice.checked = true;
  });
  // A server closes the connection of a request that is too large, so the browser checks first.
  document.addEventListener("change", (event) => {
    const most = Number(event.target.dataset.bytesMax);
    if (!most) return;
    const isLarge = [...event.target.files].some((file) => file.size > most);
    event.target.setCustomValidity(isLarge ? `The file is larger than ${Math.floor(most / 1048576)} MB.` : "");
    event.target.reportValidity();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") closeMenus(null);
    if (finder && isSearchKey(event)) { event.preventDefault(); openSearch(); }
  });
  if (finder) { finder.addEventListener("keydown", searchKeys); keepFocus(); }
  start();
})();
