// Copy buttons, menus and charts. Every page works without this script.
"use strict";
(() => {
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

  // Lets arrow keys move through a chart's points. Without this script, values are shown on hover.
  function steer(plot) {
    const points = [...plot.querySelectorAll(".chart-point")];
    const spoken = document.createElement("p");
    spoken.className = "visually-hidden";
    spoken.setAttribute("aria-live", "polite");
    plot.after(spoken);
    plot.tabIndex = 0;
    plot.setAttribute("aria-roledescription", "chart, arrow keys read its values");
    const show = (place) => {
      points.forEach((point, at) => point.classList.toggle("here", at === place));
      plot.classList.toggle("keys", place >= 0);
      spoken.textContent = place < 0 ? "" : points[place].querySelector("text").textContent;
    };
    plot.addEventListener("keydown", (event) => {
      const here = points.findIndex((point) => point.classList.contains("here"));
      const last = points.length - 1;
      const next = { ArrowRight: Math.min(here + 1, last), ArrowLeft: here < 0 ? last : Math.max(here - 1, 0), Home: 0, End: last, Escape: -1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      show(next);
    });
    for (const end of ["blur", "pointerenter"]) plot.addEventListener(end, () => show(-1));
  }

  // Remembers which menu groups the user has expanded and collapsed. This page's group is always open.
  function keepGroups() {
    const nav = document.querySelector("[data-menu] nav");
    if (!nav) return;
    const key = "menu-groups";
    const stored = () => {
      try { return JSON.parse(localStorage.getItem(key) || "{}"); } catch { return {}; }
    };
    for (const group of nav.querySelectorAll("details")) {
      const name = group.firstElementChild.textContent.trim();
      if (name in stored() && !group.querySelector("[aria-current]")) group.open = stored()[name];
      group.firstElementChild.addEventListener("click", () => {
        try {
          localStorage.setItem(key, JSON.stringify({ ...stored(), [name]: !group.open }));
        } catch { /* storage is not allowed, so the choice is not saved */ }
      });
    }
    const here = nav.querySelector("[aria-current]");
    if (here && matchMedia("(min-width: 62rem)").matches) here.scrollIntoView({ block: "nearest" });
  }

  // Returns a table's name: the heading above it, with a number if another table has the same name.
  function tableName(box) {
    const above = [...document.querySelectorAll("main h1, main h2, main h3")].filter((heading) => heading.compareDocumentPosition(box) & Node.DOCUMENT_POSITION_FOLLOWING).pop();
    const name = above ? `${above.textContent.trim()}, table` : "Table";
    const same = document.querySelectorAll(`[role="region"][aria-label^="${CSS.escape(name)}"]`).length;
    return same ? `${name} ${same + 1}` : name;
  }

  // Makes tables that are wider than the screen scrollable by keyboard.
  function reachTables() {
    for (const box of document.querySelectorAll(".table-box")) {
      if (box.scrollWidth <= box.clientWidth || box.hasAttribute("tabindex")) continue;
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", tableName(box));
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

  // When results are replaced, restores the focus to the same result, or else to the search field.
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

  // Returns why the browser does not accept a field, in the words of the server's own messages.
  function problemOf(field) {
    const { validity, type, min, max, minLength } = field;
    if (validity.customError) return field.validationMessage;
    if (validity.valueMissing) return type === "file" ? "Choose a file." : type === "radio" || type === "select-one" ? "Choose one of the options." : type === "checkbox" ? "Select this checkbox to continue." : "This field is required.";
    if (type === "email") return "Enter an email address, such as ada@example.com.";
    if (type === "url") return "Enter a URL, such as https://shop.example.";
    if (validity.rangeUnderflow) return `Enter ${min} or more.`;
    if (validity.rangeOverflow) return `Enter ${max} or less.`;
    if (validity.tooShort) return `Enter at least ${minLength} characters.`;
    if (type === "number") return "Enter a whole number, such as 15.";
    return field.title || "Correct this field.";
  }

  // The fields that share one error: the radio buttons of a group, or the field alone.
  function fieldsOf(field) {
    return field.type === "radio" ? [...field.form.querySelectorAll(`[name="${CSS.escape(field.name)}"]`)] : [field];
  }

  const errorId = (field) => `e-${field.type === "radio" ? field.name : field.id || field.name}`;

  // Shows a field's error below the field instead of in the browser's bubble, like the server's errors.
  function showError(field) {
    const id = errorId(field), fields = fieldsOf(field);
    let error = document.getElementById(id);
    if (!error) {
      error = document.createElement("p");
      error.className = "field-error";
      error.id = id;
      const last = fields[fields.length - 1];
      (last.closest(".form-check") || last).after(error);
      for (const one of fields) one.setAttribute("aria-describedby", `${id} ${one.getAttribute("aria-describedby") || ""}`.trim());
    }
    error.textContent = problemOf(field);
    for (const one of fields) one.setAttribute("aria-invalid", "true");
    if (field.form && field.form.querySelector(":invalid:not(fieldset)") === field) field.focus();
  }

  function hideError(field) {
    if (!field.validity || !field.validity.valid) return;
    const id = errorId(field), error = document.getElementById(id);
    if (!error) return;
    error.remove();
    for (const one of fieldsOf(field)) {
      one.removeAttribute("aria-invalid");
      one.setAttribute("aria-describedby", one.getAttribute("aria-describedby").replace(id, "").trim());
    }
  }

  function start() {
    reachTables();
    openMenu();
    const wrong = document.querySelector("[aria-invalid='true']");
    if (wrong) wrong.focus();
    for (const plot of document.querySelectorAll("[data-chart]")) steer(plot);
    keepGroups();
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
    if (finder && event.target.closest("[data-search]")) { event.preventDefault(); openSearch(); }
    if (event.target === finder) finder.close(); // a click outside the dialog
    closeMenus(event.target);
  });
  document.addEventListener("invalid", (event) => {
    if (event.target.matches("[role=combobox]")) return; // picker.js shows its own error
    event.preventDefault();
    showError(event.target);
  }, true);
  for (const kind of ["input", "change"]) document.addEventListener(kind, (event) => hideError(event.target));
  // Keeps a color's text field and its color picker equal.
  document.addEventListener("input", (event) => {
    const text = document.getElementById(event.target.dataset.colorOf);
    if (text) {
      text.value = event.target.value;
      text.dispatchEvent(new Event("input", { bubbles: true }));
    }
    const picker = event.target.id && document.querySelector(`[data-color-of="${event.target.id}"]`);
    const typed = picker && /^#?([0-9a-f]{6})$/i.exec(event.target.value.trim());
    if (typed) picker.value = `#${typed[1]}`;
  });
  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !confirm(question)) event.preventDefault();
  });
  // Changing an option also selects the radio button that it belongs to.
  document.addEventListener("change", (event) => {
    const choice = document.getElementById(event.target.dataset.picks);
    if (choice) choice.checked = true;
  });
  // Checks a file's size before the upload, because the server closes the connection if it is too large.
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
