// Turns <select data-picker> into a field in which users search by name, other names or code. The
// select stays in the form and keeps the chosen value. Without this script it is an ordinary select.
// <input data-picker="path"> loads its options for the typed text from that path, as <option>
// elements. It stays an ordinary field, whose value is the typed or chosen text.
// Keys and roles follow the combobox pattern of the ARIA Authoring Practices Guide.
"use strict";
(() => {
  const plain = (text) => text.toLowerCase().replace(/[^a-z0-9]/g, "");

  function read(option, place, id) {
    const words = [option.text, option.value, ...(option.dataset.words || "").split("|")];
    const item = document.createElement("li");
    item.id = `${id}-${place}`;
    item.setAttribute("role", "option");
    item.textContent = option.text;
    return { value: option.value, text: option.text, item, words: words.map(plain).filter(Boolean) };
  }

  // Returns 0 if a name or code equals the text, 1 if one starts with it, 2 if one contains it, else 3.
  function rank(option, wanted) {
    if (option.words.includes(wanted)) return 0;
    if (option.words.some((word) => word.startsWith(wanted))) return 1;
    return option.words.some((word) => word.includes(wanted)) ? 2 : 3;
  }

  function build(field, isRemote) {
    const box = document.createElement("div"), input = isRemote ? field : document.createElement("input");
    const list = document.createElement("ul"), said = document.createElement("p");
    box.className = "picker";
    list.id = `${field.id}-list`;
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", "Results");
    list.hidden = true;
    said.setAttribute("role", "status");
    if (isRemote) input.before(box);
    else replace(field, input, box);
    Object.assign(input, { autocomplete: "off", spellcheck: false });
    input.placeholder = isRemote ? "Type a name or number" : "Type a name or code";
    const roles = { role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": list.id, autocapitalize: "none" };
    for (const [name, value] of Object.entries(roles)) input.setAttribute(name, value);
    box.append(input, list, said);
    return { input, list, said };
  }

  // Hides the select and shows the field instead.
  function replace(select, input, box) {
    Object.assign(input, { type: "text", id: select.id, required: select.required });
    input.className = select.className.replace("form-select", "form-control");
    for (const name of ["aria-describedby", "aria-invalid"]) {
      if (select.hasAttribute(name)) input.setAttribute(name, select.getAttribute(name));
      select.removeAttribute(name);
    }
    select.required = false;
    select.hidden = true;
    select.removeAttribute("id");
    select.before(box);
  }

  function start(select) {
    const path = select.dataset.picker, isRemote = Boolean(path), id = select.id;
    const readAll = (all) => [...all].filter((one) => one.value).map((one, place) => read(one, place, id));
    let options = isRemote ? [] : readAll(select.options);
    const { input, list, said } = build(select, isRemote);
    let found = [], active = -1, asked = 0;

    function check() {
      if (isRemote) return;
      input.setCustomValidity(input.value && !select.value ? "Choose an entry from the list." : "");
    }

    // Shows the chosen option, also after the browser has restored the form.
    function show() {
      if (isRemote) return;
      const chosen = options.find((one) => one.value === select.value);
      input.value = chosen ? chosen.text : "";
      check();
    }

    function set(value) {
      if (isRemote) return;
      if (select.value !== value) {
        select.value = value;
        select.dispatchEvent(new Event("change", { bubbles: true }));
      }
      check();
    }

    function close() {
      list.hidden = true;
      input.setAttribute("aria-expanded", "false");
      input.removeAttribute("aria-activedescendant");
      active = -1;
    }

    function mark(place) {
      active = place;
      found.forEach((one, at) => one.item.setAttribute("aria-selected", String(at === place)));
      if (place < 0) return input.removeAttribute("aria-activedescendant");
      input.setAttribute("aria-activedescendant", found[place].item.id);
      found[place].item.scrollIntoView({ block: "nearest" });
    }

    // Loads the options for the text. Only the response to the last request is used.
    function ask(text) {
      const turn = ++asked;
      setTimeout(async () => {
        if (turn !== asked) return;
        const answer = await fetch(`${path}?q=${encodeURIComponent(text)}`).then((one) => (one.ok ? one.text() : ""), () => "");
        if (turn !== asked || document.activeElement !== input) return;
        const template = document.createElement("template");
        template.innerHTML = answer;
        options = readAll(template.content.querySelectorAll("option"));
        fill(text);
      }, 150);
    }

    function open(text) {
      if (isRemote) ask(text);
      else fill(text);
    }

    function fill(text) {
      const wanted = isRemote ? "" : plain(text);
      const ranked = options.map((one) => [wanted ? rank(one, wanted) : 0, one]).filter(([place]) => place < 3);
      found = ranked.sort((one, other) => one[0] - other[0]).map(([, one]) => one);
      list.replaceChildren(...found.map((one) => one.item));
      list.hidden = !found.length;
      input.setAttribute("aria-expanded", String(!list.hidden));
      said.className = found.length ? "visually-hidden" : "form-hint";
      said.textContent = found.length ? `${found.length} ${found.length === 1 ? "result" : "results"}` : "No results.";
      const first = wanted || (isRemote && text) ? 0 : found.findIndex((one) => one.value === select.value);
      mark(found.length ? first : -1);
    }

    function choose(option) {
      asked += 1; // A pending response is ignored.
      input.value = option.text;
      set(option.value);
      said.textContent = "";
      close();
    }

    function leave() {
      if (isRemote) { asked += 1; said.textContent = ""; return close(); }
      const exact = options.filter((one) => rank(one, plain(input.value)) === 0);
      if (!select.value && exact.length === 1) choose(exact[0]);
      if (!input.value) said.textContent = "";
      close();
    }

    function press(event) {
      const isOpen = !list.hidden;
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        if (!isOpen) return open(select.value && !isRemote ? "" : input.value);
        const step = event.key === "ArrowDown" ? 1 : -1;
        mark(active < 0 ? (step > 0 ? 0 : found.length - 1) : (active + step + found.length) % found.length);
      } else if (event.key === "Enter" && isOpen) {
        event.preventDefault();
        if (active >= 0) choose(found[active]);
      } else if (event.key === "Escape" && isOpen) {
        close();
      }
    }

    input.addEventListener("input", () => { set(""); open(input.value); });
    input.addEventListener("click", () => { input.select(); open(select.value && !isRemote ? "" : input.value); });
    input.addEventListener("keydown", press);
    input.addEventListener("blur", leave);
    // The browser's own message would cover the list, so the error is shown below the field.
    input.addEventListener("invalid", (event) => {
      event.preventDefault();
      close();
      said.className = "field-error";
      said.textContent = input.validationMessage;
      if (input.form.querySelector(":invalid") === input) input.focus();
    });
    list.addEventListener("mousedown", (event) => event.preventDefault()); // keeps the focus in the field
    list.addEventListener("click", (event) => {
      const chosen = found.find((one) => one.item === event.target);
      if (chosen) choose(chosen);
    });
    addEventListener("pageshow", show);
    show();
  }

  for (const field of document.querySelectorAll("[data-picker]")) start(field);
})();
