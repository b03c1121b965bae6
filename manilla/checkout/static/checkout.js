// Improves checkout if scripts are available. Every page works without this script.
"use strict";

const all = (selector) => [...document.querySelectorAll(selector)];
const one = (selector) => document.querySelector(selector);
const texts = JSON.parse(one("main").dataset.texts ?? "{}");
const translated = (english) => texts[english] ?? english;

// Counts down from the seconds that the server reports, because the customer's clock may be wrong.
function countDown(timer) {
  const seconds = Number(timer.dataset.seconds);
  const end = Date.now() + seconds * 1000;
  const tick = () => {
    const left = Math.max(0, Math.ceil((end - Date.now()) / 1000));
    timer.textContent = clock(left);
    timer.closest("p").classList.toggle("soon", left < 120);
    if (left > 0) return;
    clearInterval(ticking);
    // Do not reload a page that started at zero, or it would reload forever.
    if (seconds > 0 && timer.dataset.next) location.replace(timer.dataset.next);
  };
  const ticking = setInterval(tick, 1000);
  tick();
}

function clock(seconds) {
  const hours = Math.floor(seconds / 3600);
  if (hours >= 24) {
    const text = translated("{days} d {hours} h").replace("{days}", Math.floor(hours / 24));
    return text.replace("{hours}", hours % 24);
  }
  const two = (number) => String(number).padStart(2, "0");
  const minutes = Math.floor(seconds / 60) % 60;
  const rest = two(seconds % 60);
  return hours ? `${hours}:${two(minutes)}:${rest}` : `${minutes}:${rest}`;
}

// Polls every 3 seconds, every 10 seconds after two minutes, and not while the page is hidden.
function follow(live) {
  const words = live.querySelector("[data-words]");
  const usual = words.textContent;
  const began = Date.now();
  let waiting;
  const say = (text) => { if (words.textContent !== text) words.textContent = text; };
  const later = () => {
    clearTimeout(waiting);
    if (!document.hidden) waiting = setTimeout(ask, Date.now() - began < 120_000 ? 3000 : 10_000);
  };
  const ask = async () => {
    try {
      const answer = await fetch(live.dataset.poll, { headers: { Accept: "application/json" } });
      const isOver = answer.status === 403 || answer.status === 410;
      if (isOver || (answer.ok && (await answer.json()).version !== one("main").dataset.version)) {
        return location.replace(live.dataset.next);
      }
      say(usual);
    } catch {
      say(translated("You seem to be offline. We will keep trying."));
    }
    later();
  };
  document.addEventListener("visibilitychange", () => {
    clearTimeout(waiting);
    if (!document.hidden) ask();
  });
  if (live.dataset.reload) {
    setTimeout(() => location.replace(live.dataset.next), live.dataset.reload * 1000);
  }
  later();
}

function offerCopy(button) {
  const word = button.querySelector("[data-word]");
  button.hidden = false;
  button.addEventListener("click", async () => {
    word.textContent = (await copied(button.dataset.copy)) ? translated("Copied") : translated("Not copied");
    announce(button.textContent);
    setTimeout(() => { word.textContent = translated("Copy"); }, 2500);
  });
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedByCommand(text);
  }
}

// Fallback for pages without TLS and for older browsers, which have no clipboard API.
function copiedByCommand(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "unseen";
  document.body.append(field);
  field.select();
  const isDone = document.execCommand("copy");
  field.remove();
  return isDone;
}

function announce(text) {
  const region = one("[data-announce]");
  if (region) region.textContent = text;
}

function returnSoon(link) {
  const cameBack = performance.getEntriesByType("navigation")[0]?.type === "back_forward";
  const note = one("[data-return-note]");
  if (cameBack) return;
  note.textContent = note.dataset.returnNote;
  const leaving = setTimeout(() => location.replace(link.href), 5000);
  // Hides the note but keeps its space: if the links below moved now, a tap on them would miss.
  const stay = () => { clearTimeout(leaving); note.classList.add("past"); };
  for (const kind of ["pointerdown", "keydown", "wheel"]) {
    addEventListener(kind, stay, { once: true, passive: true });
  }
}

// Prevents a double click from submitting a form twice.
function sendOnce(form) {
  form.addEventListener("submit", (event) => {
    if (form.hasAttribute("aria-busy")) return event.preventDefault();
    form.setAttribute("aria-busy", "true");
  });
  addEventListener("pageshow", () => form.removeAttribute("aria-busy"));
}

all("[data-seconds]").forEach(countDown);
all("[data-poll]").slice(0, 1).forEach(follow);
all("[data-copy]").forEach(offerCopy);
all("[data-return]").forEach(returnSoon);
all("[data-follow]").forEach((link) => location.replace(link.href));
all("form").forEach(sendOnce);
one("[role=alert]")?.focus();
