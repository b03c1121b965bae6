// Reloads the page every 5 seconds, for at most a minute, until the payment is confirmed.
(() => {
  "use strict";
  const name = `manilla-waiting-${location.pathname}`;
  const count = Number(sessionStorage.getItem(name) || 0);
  if (count >= 12) return;
  sessionStorage.setItem(name, String(count + 1));
  setTimeout(() => location.reload(), 5000);
})();
