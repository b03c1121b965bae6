// Connects checkout in a frame with the shop's page, and with the windows that the frame opens.
// `translated` is in checkout.js, which runs before the customer can click.
// A browser may block cookies and storage in a frame, so nothing here depends on them.
"use strict";

(() => {
  const main = document.querySelector("main");
  const all = (selector) => [...document.querySelectorAll(selector)];
  const origins = main.dataset.origins.split(" ");
  const isFramed = window.parent !== window;
  const MARK = "manilla-window";
  let shop = null; // the origin of the shop's page, known after the page's first message

  // Only an allowed origin gets a message, and only with that exact origin as the target.
  function tell(message) {
    if (shop) window.parent.postMessage(message, shop);
  }

  function listen() {
    addEventListener("message", (event) => {
      if (event.source !== window.parent || !origins.includes(event.origin)) return;
      if (event.data?.manilla !== "hello") return;
      shop = event.origin;
      tell({ manilla: "state", trx_id: main.dataset.trxId, status: main.dataset.status });
    });
    // The shop's page does not receive keys that are pressed in the frame.
    addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !event.defaultPrevented) tell({ manilla: "close" });
    });
  }

  // "Return to the shop" closes the dialog. In a frame without the dialog, it opens the shop's page.
  function returnToShop(link) {
    link.target = "_top";
    link.removeAttribute("data-return");
    link.addEventListener("click", (event) => {
      if (!shop) return;
      event.preventDefault();
      tell({ manilla: "close" });
    });
  }

  // Providers' pages refuse frames, so the customer's click opens them in a new window.
  // The window first loads our page, which cuts the connection to the window that opened it.
  function openProvider(link) {
    link.removeAttribute("data-follow");
    link.addEventListener("click", (event) => {
      if (link.target === "_top") return;
      event.preventDefault();
      if (window.open(`${main.dataset.pay}&window=1`, "_blank")) {
        location.replace(main.dataset.waiting);
      } else {
        offerThisWindow(link);
      }
    });
  }

  function offerThisWindow(link) {
    show("[data-in-page]", true);
    show("[data-in-frame]", false);
    const alert = document.createElement("p");
    alert.className = "alert";
    alert.setAttribute("role", "alert");
    alert.textContent = translated("Your browser blocked the new window.");
    link.before(alert);
    link.href = main.dataset.pay;
    link.target = "_top";
    link.textContent = translated("Continue in this window");
    link.focus();
  }

  // Sends the customer's choice from the new window, which then shows the provider's page.
  // If the browser blocks the window, the frame sends the choice and shows a link.
  function chooseInWindow(form) {
    const mark = document.createElement("input");
    Object.assign(mark, { type: "hidden", name: "window", value: "1" });
    form.addEventListener("submit", (event) => {
      const name = `manilla-${main.dataset.trxId}`;
      const isElsewhere = event.submitter?.hasAttribute("data-provider") && window.open("", name);
      if (!isElsewhere) return;
      form.target = name;
      form.append(mark);
      setTimeout(() => {
        form.target = "";
        mark.remove();
        form.removeAttribute("aria-busy");
        form.querySelector("[data-window-note]").hidden = false;
        all("[data-poll]").forEach((live) => { live.dataset.next = main.dataset.waiting; });
      });
    });
  }

  // Other pages and files would replace checkout in the frame, or refuse to be shown in it.
  function openOutside(link) {
    const isCheckout = link.origin === location.origin
      && link.pathname.startsWith(`/checkout/${main.dataset.trxId}`)
      && !link.pathname.endsWith(".pdf");
    if (link.target || isCheckout || !link.protocol.startsWith("http")) return;
    link.target = "_blank";
    link.rel = "noopener noreferrer";
  }

  function show(selector, isShown) {
    all(selector).forEach((each) => { each.hidden = !isShown; });
  }

  // Remembers that this window was opened from a frame, until the provider sends the customer back.
  function isWindowOfFrame() {
    try {
      const isMarked = new URLSearchParams(location.search).has("window");
      if (isMarked) sessionStorage.setItem(MARK, main.dataset.trxId);
      return sessionStorage.getItem(MARK) === main.dataset.trxId;
    } catch {
      return false; // Without storage, the window returns to the shop's page like any checkout.
    }
  }

  if (isFramed) {
    listen();
    show("[data-in-page]", false);
    show("[data-in-frame]", true);
    all("a[data-back]").forEach(returnToShop);
    all("a[data-provider]").forEach(openProvider);
    all("form.methods").forEach(chooseInWindow);
    all("a[href]").forEach(openOutside);
  } else if (isWindowOfFrame()) {
    show("[data-in-window]", true);
    all("button[data-close]").forEach((button) => button.addEventListener("click", () => window.close()));
    all("a[data-back]").forEach((link) => {
      link.removeAttribute("data-return");
      link.classList.add("second");
    });
  }
})();
