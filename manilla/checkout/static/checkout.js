// What makes checkout pleasanter where scripts run. Every page works without.
"use strict";

const all = (selector) => [...document.querySelectorAll(selector)];
const one = (selector) => document.querySelector(selector);

// Counts from the seconds that the server says are left: a customer's clock may be wrong.
function countDown(timer) {
  const seconds = Number(timer.dataset.seconds);
  const end = Date.now() + seconds * 1000;
  const tick = () => {
    const left = Math.max(0, Math.ceil((end - Date.now()) / 1000));
    timer.textContent = clock(left);
    timer.closest("p").classList.toggle("soon", left < 120);
    if (left > 0) return;
    clearInterval(ticking);
    // A page that came with nothing left stays, or it would load itself for ever.
    if (seconds > 0 && timer.dataset.next) location.replace(timer.dataset.next);
  };
  const ticking = setInterval(tick, 1000);
  tick();
}

function clock(seconds) {
  const hours = Math.floor(seconds / 3600);
  if (hours >= 24) return `${Math.floor(hours / 24)} d ${hours % 24} h`;
  const two = (number) => String(number).padStart(2, "0");
  const minutes = Math.floor(seconds / 60) % 60;
  const rest = two(seconds % 60);
  return hours ? `${hours}:${two(minutes)}:${rest}` : `${minutes}:${rest}`;
}

// Asks every 3 seconds, after two minutes every 10, and not at all while nobody looks.
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
      say("You seem to be offline. We keep trying.");
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
    word.textContent = (await copied(button.dataset.copy)) ? "Copied" : "Not copied";
    announce(button.textContent);
    setTimeout(() => { word.textContent = "Copy"; }, 2500);
  });
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedTheOldWay(text);
  }
}

// Without TLS, and in older browsers, there is no clipboard to ask for.
function copiedTheOldWay(text) {
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
  const stay = () => { clearTimeout(leaving); note.textContent = ""; };
  for (const kind of ["pointerdown", "keydown", "wheel"]) {
    addEventListener(kind, stay, { once: true, passive: true });
  }
}

// One click is one try, however often it is made.
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
all("form").forEach(sendOnce);
one("[role=alert]")?.focus();
