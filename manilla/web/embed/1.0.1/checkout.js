// Shows Manilla's checkout in a dialog on a shop's page: Manilla.open({url, onClose, onSuccess}).
// The script needs no cookies, no inline styles and no other script.
// What the callbacks receive comes from the customer's browser and proves nothing.
// Verify every payment on your server with verify-payment or a signed notification.
(() => {
  "use strict";

  const platform = new URL(document.currentScript.src).origin;
  // If a loaded frame does not answer in this time, the browser probably refused to show it.
  const ANSWER_MS = 4000;
  const STYLE = `
    :host { all: initial; }
    dialog {
      box-sizing: border-box; position: fixed; inset: 0; margin: auto; padding: 0; border: 0;
      width: min(30rem, 100vw - 2rem); height: min(50rem, 100vh - 2rem); height: min(50rem, 100dvh - 2rem);
      max-width: none; max-height: none; overflow: hidden; overscroll-behavior: contain;
      flex-direction: column; color: #14231d; background: #fff; border-radius: 1rem;
      font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
      box-shadow: 0 24px 64px rgb(0 0 0 / .3);
    }
    dialog[open] { display: flex; }
    dialog::backdrop { background: rgb(10 20 16 / .6); }
    header { flex: none; display: flex; align-items: center; gap: .5rem; padding: 0 .25rem 0 1.25rem; border-bottom: 1px solid #dfe3dc; }
    .host { flex: 1; min-width: 0; margin: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; font-size: .875rem; color: #53625b; }
    button {
      all: unset; box-sizing: border-box; flex: none; display: grid; place-items: center;
      width: 2.75rem; height: 2.75rem; border-radius: .625rem; cursor: pointer;
    }
    button:hover { background: rgb(128 128 128 / .15); }
    :is(button, a):focus-visible { outline: 3px solid #8a5a00; }
    button:focus-visible { outline-offset: -3px; }
    a:focus-visible { outline-offset: 2px; }
    svg { width: 1.25rem; height: 1.25rem; fill: none; stroke: currentColor; stroke-width: 2; stroke-linecap: round; }
    .body { position: relative; flex: 1; min-height: 0; display: flex; background: inherit; }
    iframe { flex: 1; width: 100%; border: 0; }
    .note { position: absolute; inset: 0; display: flex; flex-direction: column; align-items: center; justify-content: center; gap: 1rem; padding: 1.5rem; text-align: center; background: inherit; }
    .note p { margin: 0; }
    a { padding: .75rem 1.5rem; border-radius: .875rem; font-weight: 600; text-decoration: none; color: #fff; background: #0b3d2e; }
    [hidden] { display: none !important; }
    @media (max-width: 40rem) {
      dialog { width: 100vw; height: 100vh; height: 100dvh; border-radius: 0; }
    }
    @media (prefers-color-scheme: dark) {
      dialog { color: #eef2ee; background: #16211c; }
      header { border-color: #2a3831; }
      .host { color: #a5b3ab; }
      a { color: #06281c; background: #7fd1ae; }
      :is(button, a):focus-visible { outline-color: #f2b84b; }
    }
  `;
  let current = null;

  function open({ url, onClose, onSuccess } = {}) {
    const target = new URL(url);
    if (target.origin !== platform || !target.pathname.startsWith("/checkout/")) {
      throw new TypeError(`Manilla.open: url must be a payment_url of ${platform}.`);
    }
    if (!isSupported()) {
      location.assign(target);
      return { close() {} };
    }
    current?.close();
    current = show(target, onClose, onSuccess);
    return { close: current.close };
  }

  function isSupported() {
    return "showModal" in HTMLDialogElement.prototype && "adoptedStyleSheets" in document;
  }

  function show(target, onClose, onSuccess) {
    const view = build(target);
    const unlock = lockScrolling();
    let data = { trx_id: target.pathname.split("/")[2], status: "pending" };
    let isOpen = true;
    let hasSucceeded = false;
    let waiting;

    // Runs once for each dialog. The shop's callback runs last, because it can open another dialog.
    const close = () => {
      if (!isOpen) return;
      isOpen = false;
      clearTimeout(waiting);
      removeEventListener("message", receive);
      view.dialog.close();
      view.host.remove();
      unlock();
      if (current?.close === close) current = null;
      call(onClose, data);
    };

    // The frame learns the shop's origin from this message, and answers only an allowed origin.
    const greet = () => {
      clearTimeout(waiting);
      waiting = setTimeout(view.showProblem, ANSWER_MS);
      view.frame.contentWindow.postMessage({ manilla: "hello" }, platform);
    };

    const receive = (event) => {
      if (event.source !== view.frame.contentWindow || event.origin !== platform) return;
      if (event.data?.manilla === "close") return close();
      if (event.data?.manilla !== "state") return;
      const isFirst = view.loading.isConnected;
      clearTimeout(waiting);
      view.showFrame();
      if (isFirst) view.frame.focus();
      data = { trx_id: String(event.data.trx_id), status: String(event.data.status) };
      if (data.status !== "success" || hasSucceeded) return;
      hasSucceeded = true;
      call(onSuccess, data);
    };

    addEventListener("message", receive);
    view.frame.addEventListener("load", greet);
    view.button.addEventListener("click", close);
    view.dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      close();
    });
    // A browser can close a dialog without the cancel event, for example on a second Escape.
    view.dialog.addEventListener("close", close);
    document.body.append(view.host);
    view.dialog.showModal();
    return { close };
  }

  // Reports an error of the shop's callback in the console. The error must not stop this script.
  function call(callback, data) {
    try {
      callback?.({ ...data });
    } catch (error) {
      setTimeout(() => { throw error; });
    }
  }

  function build(target) {
    const host = document.createElement("div");
    const root = host.attachShadow({ mode: "open" });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    root.adoptedStyleSheets = [sheet];

    const dialog = element("dialog", { "aria-label": "Checkout" });
    const name = element("p", { class: "host" }, target.host);
    const button = element("button", { type: "button", "aria-label": "Close checkout" });
    button.append(cross());
    const frame = element("iframe", {
      src: target.href,
      title: "Checkout",
      allow: "clipboard-write",
      referrerpolicy: "no-referrer",
    });
    const loading = element("div", { class: "note", role: "status" });
    loading.append(element("p", {}, "Opening checkout…"));
    const problem = element("div", { class: "note", role: "alert", hidden: "" });
    const link = element("a", { href: target.href, rel: "noreferrer" }, "Continue to checkout");

    const header = element("header", {});
    header.append(name, button);
    const body = element("div", { class: "body" });
    body.append(frame, loading, problem);
    dialog.append(header, body);
    root.append(dialog);

    const showFrame = () => {
      loading.remove();
      problem.hidden = true;
      frame.hidden = false;
    };
    const showProblem = () => {
      const isolated = "This page sends Cross-Origin-Embedder-Policy, which blocks checkout in a frame.";
      const other = `Is the origin ${location.origin} allowed in the dashboard? `
        + "Does this page send Cross-Origin-Embedder-Policy?";
      console.warn(`Manilla: checkout did not answer. ${crossOriginIsolated ? isolated : other}`);
      loading.remove();
      frame.hidden = true;
      problem.replaceChildren(element("p", {}, "Checkout cannot be shown on this page."), link);
      problem.hidden = false;
      link.focus();
    };
    return { host, dialog, button, frame, loading, showFrame, showProblem };
  }

  function element(tag, attributes, text = "") {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text;
    return made;
  }

  function cross() {
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    svg.setAttribute("viewBox", "0 0 24 24");
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS(space, "path");
    path.setAttribute("d", "M6 6l12 12M18 6L6 18");
    svg.append(path);
    return svg;
  }

  // Keeps the shop's page in place while the dialog is open, also if its scroll bar disappears.
  function lockScrolling() {
    const style = document.documentElement.style;
    const before = [style.overflow, style.paddingRight];
    const bar = innerWidth - document.documentElement.clientWidth;
    style.overflow = "hidden";
    if (bar > 0) style.paddingRight = `${bar}px`;
    return () => { [style.overflow, style.paddingRight] = before; };
  }

  window.Manilla = Object.freeze({ open, version: "1.0.1" });
})();
